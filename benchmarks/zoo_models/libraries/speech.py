"""Speech and audio: recognition, separation, codecs and vocoders."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo_models.case import Case
from benchmarks.zoo_models.libraries.making import (
    case,
    integers,
    new,
    normal,
    ones,
    uniform,
)

_SEPARATION: dict[str, Any] = {"n_src": 2, "n_filters": 16}
_SMALL_DEMUCS: dict[str, Any] = {
    "sources": ["voice", "rest"],
    "channels": 8,
    "depth": 2,
    "nfft": 256,
}


def cases() -> list[Case]:
    """All cases."""
    return _torchaudio() + _speechbrain() + _asteroid() + _music() + _codecs()


def _torchaudio() -> list[Case]:
    return [
        case(
            "torchaudio/Conformer",
            new(
                "torchaudio.models:Conformer",
                input_dim=16,
                num_heads=2,
                ffn_dim=32,
                num_layers=2,
                depthwise_conv_kernel_size=7,
                dropout=0.1,
            ),
            normal(12, 16),
            _lengths(12),
        ),
        case(
            "torchaudio/ConvTasNet",
            new(
                "torchaudio.models:ConvTasNet",
                enc_num_feats=16,
                msk_num_feats=8,
                msk_num_hidden_feats=16,
                msk_num_layers=2,
                msk_num_stacks=2,
            ),
            normal(1, 256),
        ),
        case(
            "torchaudio/DeepSpeech",
            new("torchaudio.models:DeepSpeech", n_feature=16, n_hidden=32, n_class=10, dropout=0.1),
            normal(1, 12, 16),
        ),
        case(
            "torchaudio/Emformer",
            new(
                "torchaudio.models:Emformer",
                input_dim=16,
                num_heads=2,
                ffn_dim=32,
                num_layers=2,
                segment_length=4,
                right_context_length=1,
                left_context_length=4,
                max_memory_size=2,
            ),
            normal(9, 16),
            _lengths(9),
        ),
        case(
            "torchaudio/HDemucs",
            new(
                "torchaudio.models:HDemucs",
                sources=["voice", "rest"],
                audio_channels=1,
                channels=8,
                nfft=1024,
                depth=4,
            ),
            normal(1, 4096),
        ),
        case(
            "torchaudio/Tacotron2",
            new(
                "torchaudio.models:Tacotron2",
                n_mels=8,
                n_symbol=20,
                symbol_embedding_dim=16,
                encoder_embedding_dim=16,
                attention_rnn_dim=16,
                decoder_rnn_dim=16,
                attention_hidden_dim=8,
                attention_location_n_filter=4,
                attention_location_kernel_size=5,
                prenet_dim=8,
                postnet_embedding_dim=16,
            ),
            integers(20, 8),
            _lengths(8),
            normal(8, 10),
            _lengths(10),
        ),
        case(
            "torchaudio/Wav2Letter",
            new(
                "torchaudio.models:Wav2Letter",
                num_classes=10,
                input_type="mfcc",
                num_features=13,
            ),
            normal(13, 40),
        ),
        case(
            "torchaudio/WaveRNN",
            new(
                "torchaudio.models:WaveRNN",
                upsample_scales=[2, 2],
                n_classes=16,
                hop_length=4,
                n_res_block=1,
                n_rnn=16,
                n_fc=16,
                n_freq=8,
                n_hidden=8,
                n_output=8,
            ),
            normal(1, 16),
            normal(1, 8, 8),
        ),
        case(
            "torchaudio/Wav2Vec2Model",
            new(
                "torchaudio.models.wav2vec2:wav2vec2_model",
                extractor_mode="group_norm",
                extractor_conv_layer_config=[(16, 10, 5), (16, 3, 2)],
                extractor_conv_bias=False,
                encoder_embed_dim=32,
                encoder_projection_dropout=0.1,
                encoder_pos_conv_kernel=8,
                encoder_pos_conv_groups=2,
                encoder_num_layers=2,
                encoder_num_heads=2,
                encoder_attention_dropout=0.1,
                encoder_ff_interm_features=32,
                encoder_ff_interm_dropout=0.1,
                encoder_dropout=0.1,
                encoder_layer_norm_first=False,
                encoder_layer_drop=0.1,
                aux_num_out=10,
            ),
            normal(400),
        ),
        case(
            "torchaudio/RNNT",
            new(
                "torchaudio.models.rnnt:emformer_rnnt_model",
                input_dim=8,
                encoding_dim=16,
                num_symbols=10,
                segment_length=8,
                right_context_length=4,
                time_reduction_input_dim=8,
                time_reduction_stride=4,
                transformer_num_heads=2,
                transformer_ffn_dim=16,
                transformer_num_layers=1,
                transformer_dropout=0.1,
                transformer_activation="gelu",
                transformer_left_context_length=4,
                transformer_max_memory_size=0,
                transformer_weight_init_scale_strategy="depthwise",
                transformer_tanh_on_mem=True,
                symbol_embedding_dim=8,
                num_lstm_layers=1,
                lstm_layer_norm=True,
                lstm_layer_norm_epsilon=1e-3,
                lstm_dropout=0.1,
            ),
            normal(20, 8),
            _lengths(16, torch.int32),
            _symbols,
            _lengths(5, torch.int32),
        ),
        case(
            "torchaudio/a spectrogram and its classifier",
            new("benchmarks.zoo_models.libraries.small_models:SpectrogramNet"),
            normal(1600),
        ),
    ]


def _lengths(length: int, dtype: torch.dtype = torch.int64) -> Any:
    return lambda n: torch.full((n,), length, dtype=dtype)


def _symbols(n: int) -> torch.Tensor:
    return torch.randint(10, (n, 5), dtype=torch.int32)


def _speechbrain() -> list[Case]:
    lobes = "speechbrain.lobes.models"
    return [
        case(
            "speechbrain/ECAPA_TDNN",
            new(
                f"{lobes}.ECAPA_TDNN:ECAPA_TDNN",
                input_size=16,
                lin_neurons=8,
                channels=[16, 16, 16, 16, 48],
                attention_channels=8,
                res2net_scale=2,
                se_channels=8,
            ),
            normal(24, 16),
            ones(),
        ),
        case(
            "speechbrain/Xvector",
            new(
                f"{lobes}.Xvector:Xvector",
                in_channels=16,
                tdnn_channels=[16, 16, 16, 16, 32],
                lin_neurons=16,
            ),
            normal(24, 16),
        ),
        case(
            "speechbrain/CRDNN",
            new(
                f"{lobes}.CRDNN:CRDNN",
                input_shape=[None, None, 16],
                cnn_channels=[4, 4],
                rnn_layers=1,
                rnn_neurons=16,
                dnn_blocks=1,
                dnn_neurons=16,
            ),
            normal(12, 16),
        ),
        *(
            case(
                f"speechbrain/TransformerASR, {kind}",
                new(
                    f"{lobes}.transformer.TransformerASR:TransformerASR",
                    tgt_vocab=16,
                    input_size=16,
                    d_model=32,
                    nhead=2,
                    num_encoder_layers=1,
                    num_decoder_layers=1,
                    d_ffn=32,
                    encoder_module=kind,
                    kernel_size=7,
                    csgu_linear_units=32,
                    attention_type=attention,
                    normalize_before=True,
                    causal=False,
                ),
                normal(12, 16),
                integers(16, 6),
                ones(),
            )
            for kind, attention in (
                ("transformer", "regularMHA"),
                ("conformer", "RelPosMHAXL"),
                ("branchformer", "RelPosMHAXL"),
            )
        ),
        case(
            "speechbrain/SepFormer",
            new(
                f"{lobes}.dual_path:Dual_Path_Model",
                in_channels=16,
                out_channels=16,
                intra_model=_transformer_block(),
                inter_model=_transformer_block(),
                K=10,
            ),
            normal(16, 40),
        ),
        case(
            "speechbrain/RNNLM",
            new(
                f"{lobes}.RNNLM:RNNLM",
                output_neurons=16,
                embedding_dim=16,
                rnn_neurons=16,
                dnn_neurons=16,
            ),
            integers(16, 8),
        ),
        case(
            "speechbrain/ContextNet",
            new(
                f"{lobes}.ContextNet:ContextNet",
                input_shape=(None, 32, 16),
                out_channels=16,
                conv_channels=[16, 16],
                strides=[1, 2],
                num_blocks=2,
                num_layers=2,
                inner_dim=4,
                residuals=[True, True],
            ),
            normal(32, 16),
        ),
        case(
            "speechbrain/HifiganGenerator",
            new(
                f"{lobes}.HifiGAN:HifiganGenerator",
                in_channels=8,
                out_channels=1,
                resblock_type="1",
                resblock_dilation_sizes=[[1, 3, 5], [1, 3, 5]],
                resblock_kernel_sizes=[3, 5],
                upsample_kernel_sizes=[4, 4],
                upsample_initial_channel=16,
                upsample_factors=[2, 2],
            ),
            normal(8, 12),
        ),
        case(
            "speechbrain/ResNet",
            new(
                f"{lobes}.ResNet:ResNet",
                input_size=16,
                channels=[8, 8, 16, 16],
                block_sizes=[1, 1, 1, 1],
                lin_neurons=16,
            ),
            normal(24, 16),
        ),
        case(
            "speechbrain/W2VLatentExtractor",
            new(
                f"{lobes}.wav2vec:W2VLatentExtractor",
                out_channels=[16, 16],
                kernel_sizes=[10, 3],
                strides=[5, 2],
            ),
            normal(400),
        ),
        case(
            "speechbrain/DiffWave",
            new(
                f"{lobes}.DiffWave:DiffWave",
                input_channels=8,
                residual_layers=2,
                residual_channels=8,
                dilation_cycle_length=2,
                total_steps=10,
                unconditional=True,
            ),
            normal(1, 64),
            integers(10),
        ),
    ]


def _transformer_block() -> Any:
    return new(
        "speechbrain.lobes.models.dual_path:SBTransformerBlock",
        num_layers=1,
        d_model=16,
        nhead=2,
        d_ffn=32,
        use_positional_encoding=True,
        norm_before=True,
    )


def _asteroid() -> list[Case]:
    return [
        case(
            "asteroid/ConvTasNet",
            new(
                "asteroid.models:ConvTasNet",
                **_SEPARATION,
                n_blocks=2,
                n_repeats=2,
                bn_chan=8,
                hid_chan=16,
                skip_chan=8,
            ),
            normal(256),
        ),
        case(
            "asteroid/DPRNNTasNet",
            new(
                "asteroid.models:DPRNNTasNet",
                **_SEPARATION,
                bn_chan=8,
                hid_size=8,
                chunk_size=10,
                n_repeats=1,
            ),
            normal(256),
        ),
        case(
            "asteroid/DPTNet",
            new(
                "asteroid.models:DPTNet",
                **_SEPARATION,
                n_heads=2,
                ff_hid=8,
                chunk_size=10,
                n_repeats=1,
            ),
            normal(256),
        ),
        case(
            "asteroid/SuDORMRFNet",
            new(
                "asteroid.models:SuDORMRFNet",
                **_SEPARATION,
                bn_chan=8,
                num_blocks=2,
                upsampling_depth=2,
            ),
            normal(400),
        ),
        case(
            "asteroid/LSTMTasNet",
            new("asteroid.models:LSTMTasNet", **_SEPARATION, n_layers=1, hid_size=8),
            normal(256),
        ),
        case(
            "asteroid/DeMask",
            new(
                "asteroid.models:DeMask",
                hidden_dims=(16,),
                dropout=0.1,
                n_filters=64,
                kernel_size=64,
                stride=32,
            ),
            normal(512),
        ),
    ]


def _music() -> list[Case]:
    return [
        case(
            "demucs/Demucs",
            new(
                "demucs.demucs:Demucs",
                ["voice", "rest"],
                audio_channels=1,
                channels=8,
                depth=3,
                lstm_layers=1,
            ),
            normal(1, 1024),
        ),
        case(
            "demucs/HDemucs",
            new("demucs.hdemucs:HDemucs", **{**_SMALL_DEMUCS, "depth": 4, "nfft": 1024}),
            normal(2, 4096),
        ),
        case(
            "demucs/HTDemucs",
            new(
                "demucs.htdemucs:HTDemucs",
                **{**_SMALL_DEMUCS, "depth": 4, "nfft": 4096},
                t_layers=2,
                t_heads=2,
                bottom_channels=16,
                samplerate=8192,
                segment=1,
            ),
            normal(2, 8192),
        ),
        case(
            "openunmix/OpenUnmix",
            new("openunmix.model:OpenUnmix", nb_bins=33, hidden_size=16, nb_layers=2),
            uniform(2, 33, 10),
        ),
        case(
            "openunmix/a spectrogram and OpenUnmix",
            new("benchmarks.zoo_models.libraries.small_models:Unmixed"),
            normal(2, 1024),
        ),
    ]


def _codecs() -> list[Case]:
    return [
        case(
            "encodec/EncodecModel",
            new("benchmarks.zoo_models.libraries.small_models:encodec"),
            normal(1, 640),
        ),
        case(
            "snac/SNAC",
            new(
                "snac:SNAC",
                encoder_dim=8,
                encoder_rates=[2, 4],
                decoder_dim=32,
                decoder_rates=[4, 2],
                attn_window_size=None,
                codebook_size=32,
                codebook_dim=4,
                vq_strides=[2, 1],
            ),
            normal(1, 256),
        ),
        case(
            "vocos/Vocos",
            new(
                "torch.nn:Sequential",
                new(
                    "vocos.models:VocosBackbone",
                    input_channels=8,
                    dim=16,
                    intermediate_dim=32,
                    num_layers=2,
                ),
                new("vocos.heads:ISTFTHead", dim=16, n_fft=32, hop_length=8),
            ),
            normal(8, 12),
        ),
    ]
