"""Tables and time series: pytorch-tabnet, rtdl, gluonts, pytorch-forecasting and the like."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo_models.case import Case
from benchmarks.zoo_models.libraries.making import (
    case,
    images,
    integers,
    new,
    normal,
    ones,
    uniform,
)

_FEW: dict[str, Any] = {"freq": "D", "context_length": 8, "prediction_length": 4}


def cases() -> list[Case]:
    """All cases."""
    return _tables() + _series() + _functions() + _sequences()


def _tables() -> list[Case]:
    return [
        case(
            "pytorch-tabnet/TabNet",
            new(
                "pytorch_tabnet.tab_network:TabNet",
                input_dim=8,
                output_dim=3,
                n_d=4,
                n_a=4,
                virtual_batch_size=4,
                group_attention_matrix=torch.eye(8),
            ),
            normal(8),
        ),
        case(
            "pytorch-tabnet/TabNetPretraining",
            new(
                "pytorch_tabnet.tab_network:TabNetPretraining",
                input_dim=8,
                pretraining_ratio=0.3,
                n_d=4,
                n_a=4,
                virtual_batch_size=4,
                group_attention_matrix=torch.eye(8),
            ),
            normal(8),
        ),
        case(
            "rtdl-revisiting-models/FTTransformer",
            new(
                "rtdl_revisiting_models:FTTransformer",
                n_cont_features=5,
                cat_cardinalities=[3, 4],
                d_out=2,
                n_blocks=2,
                d_block=16,
                attention_n_heads=2,
                attention_dropout=0.1,
                ffn_d_hidden_multiplier=2.0,
                ffn_dropout=0.1,
                residual_dropout=0.1,
            ),
            normal(5),
            integers(3, 2),
        ),
        case(
            "rtdl-revisiting-models/ResNet",
            new(
                "rtdl_revisiting_models:ResNet",
                d_in=8,
                d_out=2,
                n_blocks=2,
                d_block=16,
                d_hidden=None,
                d_hidden_multiplier=2.0,
                dropout1=0.1,
                dropout2=0.1,
            ),
            normal(8),
        ),
        case(
            "rtdl-num-embeddings/PeriodicEmbeddings",
            new(
                "torch.nn:Sequential",
                new("rtdl_num_embeddings:PeriodicEmbeddings", 8, 4, lite=False),
                new("torch.nn:Flatten"),
                new("torch.nn:Linear", 32, 2),
            ),
            normal(8),
        ),
        case(
            "rtdl-num-embeddings/PiecewiseLinearEmbeddings",
            new(
                "torch.nn:Sequential",
                new(
                    "rtdl_num_embeddings:PiecewiseLinearEmbeddings",
                    [torch.linspace(-1, 1, 4)] * 8,
                    4,
                    activation=False,
                    version="B",
                ),
                new("torch.nn:Flatten"),
                new("torch.nn:Linear", 32, 2),
            ),
            normal(8),
        ),
    ]


def _series() -> list[Case]:
    values = [normal(8), ones(8)]
    return [
        case(
            "gluonts/DeepARModel",
            new(
                "benchmarks.zoo_models.libraries.small_sequences:Likelihood",
                new(
                    "gluonts.torch.model.deepar.module:DeepARModel",
                    **_FEW,
                    num_feat_dynamic_real=1,
                    num_feat_static_real=1,
                    num_feat_static_cat=1,
                    cardinality=[3],
                    lags_seq=[1, 2],
                    hidden_size=8,
                ),
            ),
            integers(3, 1),
            normal(1),
            normal(10, 1),
            uniform(10),
            ones(10),
            normal(4, 1),
            uniform(4),
            ones(4),
        ),
        case(
            "gluonts/SimpleFeedForwardModel",
            new(
                "gluonts.torch.model.simple_feedforward.module:SimpleFeedForwardModel",
                prediction_length=4,
                context_length=8,
                hidden_dimensions=[16],
                batch_norm=True,
            ),
            normal(8),
        ),
        case(
            "gluonts/DLinearModel",
            new(
                "gluonts.torch.model.d_linear.module:DLinearModel",
                prediction_length=4,
                context_length=8,
                hidden_dimension=8,
                kernel_size=3,
            ),
            *values,
        ),
        case(
            "gluonts/PatchTSTModel",
            new(
                "gluonts.torch.model.patch_tst.module:PatchTSTModel",
                prediction_length=4,
                context_length=8,
                patch_len=4,
                stride=2,
                padding_patch="end",
                d_model=16,
                nhead=2,
                dim_feedforward=16,
                dropout=0.1,
                activation="relu",
                norm_first=False,
                num_encoder_layers=1,
                scaling="mean",
                num_feat_dynamic_real=0,
            ),
            *values,
        ),
        case(
            "gluonts/LagTSTModel",
            new(
                "gluonts.torch.model.lag_tst.module:LagTSTModel",
                prediction_length=4,
                context_length=8,
                freq="D",
                d_model=16,
                nhead=2,
                dim_feedforward=16,
                dropout=0.1,
                activation="relu",
                norm_first=False,
                num_encoder_layers=1,
                scaling="mean",
                lags_seq=[1, 2],
            ),
            normal(10),
            ones(10),
        ),
        case(
            "pytorch-forecasting/NBEATS blocks",
            new(
                "pytorch_forecasting.models.nbeats.sub_modules:NBEATSGenericBlock",
                units=16,
                thetas_dim=8,
                num_block_layers=2,
                backcast_length=8,
                forecast_length=4,
            ),
            normal(8),
        ),
        case(
            "pytorch-forecasting/GatedResidualNetwork",
            new(
                "pytorch_forecasting.models.temporal_fusion_transformer.sub_modules"
                ":GatedResidualNetwork",
                input_size=8,
                hidden_size=16,
                output_size=8,
                context_size=4,
            ),
            normal(8),
            normal(4),
        ),
        case(
            "pytorch-forecasting/InterpretableMultiHeadAttention",
            new(
                "pytorch_forecasting.models.temporal_fusion_transformer.sub_modules"
                ":InterpretableMultiHeadAttention",
                n_head=2,
                d_model=16,
                dropout=0.1,
            ),
            normal(6, 16),
            normal(6, 16),
            normal(6, 16),
        ),
        case(
            "pytorch-forecasting/VariableSelectionNetwork",
            new(
                "pytorch_forecasting.models.temporal_fusion_transformer.sub_modules"
                ":VariableSelectionNetwork",
                input_sizes={"price": 1, "day": 1},
                hidden_size=8,
            ),
            lambda n: {"price": torch.randn(n, 1), "day": torch.randn(n, 1)},
        ),
    ]


def _functions() -> list[Case]:
    return [
        case(
            "neuraloperator/FNO",
            new(
                "neuralop.models:FNO",
                n_modes=(4, 4),
                hidden_channels=8,
                in_channels=1,
                out_channels=1,
                n_layers=2,
            ),
            images(16, 1),
        ),
        case(
            "neuraloperator/TFNO",
            new(
                "neuralop.models:TFNO",
                n_modes=(4, 4),
                hidden_channels=8,
                in_channels=1,
                out_channels=1,
                n_layers=2,
                factorization="Tucker",
                implementation="factorized",
                rank=0.5,
            ),
            images(16, 1),
        ),
        case(
            "neuraloperator/UNO",
            new(
                "neuralop.models:UNO",
                in_channels=1,
                out_channels=1,
                hidden_channels=8,
                uno_out_channels=[8, 8, 8],
                uno_n_modes=[[4, 4], [4, 4], [4, 4]],
                uno_scalings=[[1.0, 1.0], [0.5, 0.5], [2.0, 2.0]],
                n_layers=3,
                channel_mlp_skip="linear",
            ),
            images(16, 1),
        ),
    ]


def _sequences() -> list[Case]:
    return [
        case(
            "mambapy/Mamba",
            new("mambapy.mamba:Mamba", new("mambapy.mamba:MambaConfig", d_model=16, n_layers=2)),
            normal(12, 16),
        ),
        case(
            "xlstm/xLSTMBlockStack",
            new("benchmarks.zoo_models.libraries.small_sequences:xlstm"),
            normal(16, 16),
        ),
        case(
            "ncps/LTC",
            new("ncps.torch:LTC", 4, new("ncps.wirings:AutoNCP", 12, 2), batch_first=True),
            normal(6, 4),
        ),
        case("ncps/CfC", new("ncps.torch:CfC", 4, 12, proj_size=2), normal(6, 4)),
        case(
            "ncps/CfC, wired",
            new("ncps.torch:CfC", 4, new("ncps.wirings:AutoNCP", 12, 2)),
            normal(6, 4),
        ),
        case(
            "litgpt/GPT",
            new(
                "litgpt:GPT",
                new(
                    "litgpt:Config",
                    n_layer=2,
                    n_head=2,
                    n_embd=32,
                    block_size=16,
                    vocab_size=64,
                    padded_vocab_size=64,
                    norm_class_name="RMSNorm",
                    mlp_class_name="LLaMAMLP",
                    intermediate_size=32,
                    n_query_groups=1,
                    bias=False,
                ),
            ),
            integers(64, 12),
        ),
        case(
            "litgpt/GPT with LoRA",
            new(
                "litgpt.lora:GPT",
                new(
                    "litgpt.lora:Config",
                    n_layer=2,
                    n_head=2,
                    n_embd=32,
                    block_size=16,
                    vocab_size=64,
                    padded_vocab_size=64,
                    lora_r=4,
                    lora_alpha=8,
                    lora_dropout=0.1,
                    lora_query=True,
                    lora_value=True,
                ),
            ),
            integers(64, 12),
        ),
        case(
            "curated-transformers/BERTEncoder",
            new(
                "curated_transformers.models.bert:BERTEncoder",
                new(
                    "curated_transformers.models.bert:BERTConfig",
                    embedding_width=32,
                    hidden_width=32,
                    intermediate_width=32,
                    n_attention_heads=2,
                    n_hidden_layers=2,
                    n_pieces=64,
                ),
            ),
            integers(64, 12),
            lambda n: _attention_mask(n),
        ),
        case(
            "curated-transformers/LlamaCausalLM",
            new("benchmarks.zoo_models.libraries.small_sequences:curated_llama"),
            integers(64, 12),
            lambda n: _attention_mask(n),
        ),
        case(
            "pytorch-crf/CRF",
            new("benchmarks.zoo_models.libraries.small_sequences:Tagger"),
            integers(32, 8),
            integers(3, 8),
        ),
        case(
            "entmax/attention",
            new("benchmarks.zoo_models.libraries.small_sequences:SparseAttention"),
            normal(8, 16),
        ),
        case(
            "loralib/a small transformer",
            new("benchmarks.zoo_models.libraries.small_sequences:Adapted"),
            integers(32, 8),
        ),
        case(
            "fairscale/a checkpointed MLP",
            new("benchmarks.zoo_models.libraries.small_sequences:fairscale_checkpointed"),
            normal(16),
        ),
        *(
            case(
                f"peft/{kind}",
                new("benchmarks.zoo_models.libraries.small_sequences:tuned", kind, **options),
                input_ids=integers(64, 8),
            )
            for kind, options in _PEFT.items()
        ),
        *(
            case(
                f"sentence-transformers/{name}",
                new("benchmarks.zoo_models.libraries.small_sequences:sentences", name),
                lambda n: {
                    "input_ids": torch.randint(64, (n, 8)),
                    "attention_mask": torch.ones(n, 8, dtype=torch.long),
                },
            )
            for name in ("mean", "cls", "lstm")
        ),
    ]


_TARGETS: dict[str, Any] = {"target_modules": ["q_proj", "v_proj"]}
_PEFT: dict[str, dict[str, Any]] = {
    "LoraConfig": {**_TARGETS, "r": 4, "lora_dropout": 0.1},
    "LoraConfig with DoRA": {**_TARGETS, "r": 4, "use_dora": True},
    "LoHaConfig": {**_TARGETS, "r": 4},
    "LoKrConfig": {**_TARGETS, "r": 4},
    "AdaLoraConfig": {**_TARGETS, "init_r": 4, "target_r": 2, "total_step": 10},
    "IA3Config": {**_TARGETS, "feedforward_modules": []},
    "OFTConfig": {**_TARGETS, "oft_block_size": 4},
    "BOFTConfig": {**_TARGETS, "boft_block_size": 4},
    "VeraConfig": {**_TARGETS, "r": 4},
    "LNTuningConfig": {"target_modules": ["input_layernorm"]},
    "PromptTuningConfig": {"num_virtual_tokens": 4},
    "PrefixTuningConfig": {"num_virtual_tokens": 4},
}


def _attention_mask(n: int) -> Any:
    from curated_transformers.layers import AttentionMask

    return AttentionMask(torch.ones(n, 12, dtype=torch.bool))
