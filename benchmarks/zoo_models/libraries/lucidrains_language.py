"""Transformers for sequences, of the packages of one prolific author and those like them."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo_models.case import Case
from benchmarks.zoo_models.libraries.making import New, case, integers, new, normal, truths

_TOKENS = integers(64, 16)
_LAYERS: dict[str, Any] = {"dim": 32, "depth": 2, "heads": 2}


def cases() -> list[Case]:
    """All cases."""
    return _x_transformers() + _efficient() + _recurrent() + _mixtures() + _others()


def _x_transformers() -> list[Case]:
    return [
        case("x-transformers/TransformerWrapper", _wrapper("Decoder"), _TOKENS),
        case("x-transformers/AutoregressiveWrapper", _autoregressive(), _TOKENS),
        case("x-transformers/Encoder", _wrapper("Encoder"), _TOKENS, mask=truths(16)),
        case(
            "x-transformers/Decoder, rotary and gated",
            _wrapper("Decoder", rotary_pos_emb=True, ff_glu=True, attn_qk_norm=True),
            _TOKENS,
        ),
        case(
            "x-transformers/Decoder, ALiBi and memories",
            _wrapper("Decoder", alibi_pos_bias=True, attn_num_mem_kv=2, use_rmsnorm=True),
            _TOKENS,
        ),
        case(
            "x-transformers/Decoder, shared key and value heads",
            _wrapper("Decoder", attn_kv_heads=1, ff_swish=True),
            _TOKENS,
        ),
        case(
            "x-transformers/ContinuousTransformerWrapper",
            new(
                "x_transformers:ContinuousTransformerWrapper",
                dim_in=8,
                dim_out=8,
                max_seq_len=16,
                attn_layers=new("x_transformers:Encoder", **_LAYERS),
            ),
            normal(16, 8),
        ),
        case(
            "x-transformers/ViTransformerWrapper",
            new(
                "x_transformers:ViTransformerWrapper",
                image_size=32,
                patch_size=8,
                num_classes=10,
                attn_layers=new("x_transformers:Encoder", **_LAYERS),
            ),
            normal(3, 32, 32),
        ),
        case(
            "x-transformers/XTransformer",
            new(
                "x_transformers:XTransformer",
                dim=32,
                enc_num_tokens=64,
                enc_depth=2,
                enc_heads=2,
                enc_max_seq_len=16,
                dec_num_tokens=64,
                dec_depth=2,
                dec_heads=2,
                dec_max_seq_len=16,
            ),
            _TOKENS,
            _TOKENS,
        ),
    ]


def _wrapper(kind: str, **options: Any) -> New:
    layers = new(f"x_transformers:{kind}", **_LAYERS, **options)
    return new(
        "x_transformers:TransformerWrapper", num_tokens=64, max_seq_len=16, attn_layers=layers
    )


def _autoregressive() -> New:
    return new("x_transformers:AutoregressiveWrapper", _wrapper("Decoder"))


def _efficient() -> list[Case]:
    return [
        case(
            "performer-pytorch/PerformerLM",
            new(
                "performer_pytorch:PerformerLM",
                num_tokens=64,
                max_seq_len=16,
                dim_head=16,
                **_LAYERS,
            ),
            _TOKENS,
        ),
        case(
            "performer-pytorch/Performer, causal",
            new("performer_pytorch:Performer", dim_head=16, generalized_attention=True, **_LAYERS),
            normal(16, 32),
        ),
        case(
            "linear-attention-transformer/LinearAttentionTransformerLM",
            new(
                "linear_attention_transformer:LinearAttentionTransformerLM",
                num_tokens=64,
                max_seq_len=16,
                causal=True,
                **_LAYERS,
            ),
            _TOKENS,
        ),
        case(
            "linear-attention-transformer/LinearAttentionTransformerLM, reversible",
            new(
                "linear_attention_transformer:LinearAttentionTransformerLM",
                num_tokens=64,
                max_seq_len=16,
                reversible=True,
                **_LAYERS,
            ),
            _TOKENS,
        ),
        case(
            "reformer-pytorch/ReformerLM",
            new(
                "reformer_pytorch:ReformerLM",
                num_tokens=64,
                max_seq_len=16,
                bucket_size=4,
                n_hashes=2,
                causal=True,
                **_LAYERS,
            ),
            _TOKENS,
        ),
        case(
            "reformer-pytorch/LSHSelfAttention",
            new("reformer_pytorch:LSHSelfAttention", dim=32, heads=2, bucket_size=4, n_hashes=2),
            normal(16, 32),
        ),
        case(
            "routing-transformer/RoutingTransformerLM",
            new(
                "routing_transformer:RoutingTransformerLM",
                num_tokens=64,
                max_seq_len=16,
                window_size=4,
                causal=True,
                **_LAYERS,
            ),
            _TOKENS,
        ),
        case(
            "sinkhorn-transformer/SinkhornTransformerLM",
            new(
                "sinkhorn_transformer:SinkhornTransformerLM",
                num_tokens=64,
                max_seq_len=16,
                bucket_size=4,
                **_LAYERS,
            ),
            _TOKENS,
        ),
        case(
            "linformer/LinformerLM",
            new("linformer:LinformerLM", num_tokens=64, seq_len=16, k=4, **_LAYERS),
            _TOKENS,
        ),
        case(
            "nystrom-attention/Nystromformer",
            new(
                "nystrom_attention:Nystromformer",
                dim_head=16,
                num_landmarks=4,
                pinv_iterations=2,
                **_LAYERS,
            ),
            normal(16, 32),
            truths(16),
        ),
        case(
            "h-transformer-1d/HTransformer1D",
            new(
                "h_transformer_1d:HTransformer1D",
                num_tokens=64,
                max_seq_len=16,
                block_size=4,
                dim_head=16,
                causal=False,
                **_LAYERS,
            ),
            _TOKENS,
        ),
        case(
            "local-attention/LocalTransformer",
            new(
                "local_attention:LocalTransformer",
                num_tokens=64,
                max_seq_len=16,
                local_attn_window_size=4,
                causal=True,
                **_LAYERS,
            ),
            _TOKENS,
        ),
        case(
            "g-mlp-pytorch/gMLP",
            new("g_mlp_pytorch:gMLP", num_tokens=64, dim=32, depth=2, seq_len=16, causal=True),
            _TOKENS,
        ),
        case(
            "charformer-pytorch/GBST",
            new(
                "charformer_pytorch:GBST",
                num_tokens=64,
                dim=32,
                max_block_size=4,
                downsample_factor=4,
                score_consensus_attn=True,
            ),
            _TOKENS,
        ),
        case(
            "megabyte-pytorch/MEGABYTE",
            new(
                "MEGABYTE_pytorch:MEGABYTE",
                num_tokens=64,
                dim=(32, 16),
                depth=(2, 1),
                max_seq_len=(8, 4),
                dim_head=8,
                heads=2,
            ),
            integers(64, 32),
        ),
        case(
            "mega-pytorch/Mega",
            new("mega_pytorch.mega_pytorch:Mega", num_tokens=64, dim=32, depth=2),
            _TOKENS,
        ),
        case(
            "taylor-series-linear-attention/TaylorSeriesLinearAttn",
            new(
                "taylor_series_linear_attention:TaylorSeriesLinearAttn",
                dim=32,
                dim_head=8,
                heads=2,
            ),
            normal(16, 32),
        ),
    ]


def _recurrent() -> list[Case]:
    return [
        case(
            "feedback-transformer-pytorch/FeedbackTransformer",
            new(
                "feedback_transformer_pytorch:FeedbackTransformer",
                num_tokens=64,
                seq_len=2,
                mem_len=4,
                dim_head=16,
                **_LAYERS,
            ),
            integers(64, 6),
        ),
        case(
            "memory-transformer-xl/MemoryTransformerXL",
            new(
                "memory_transformer_xl:MemoryTransformerXL",
                num_tokens=64,
                seq_len=8,
                mem_len=8,
                **_LAYERS,
            ),
            integers(64, 8),
        ),
        case(
            "block-recurrent-transformer-pytorch/BlockRecurrentTransformer",
            new(
                "block_recurrent_transformer_pytorch:BlockRecurrentTransformer",
                num_tokens=64,
                dim=32,
                depth=2,
                dim_head=16,
                heads=2,
                max_seq_len=16,
                block_width=8,
                num_state_vectors=8,
                recurrent_layers=(2,),
                use_flash_attn=False,
            ),
            _TOKENS,
        ),
        case(
            "recurrent-memory-transformer-pytorch/RecurrentMemoryTransformer",
            new(
                "recurrent_memory_transformer_pytorch:RecurrentMemoryTransformer",
                num_tokens=64,
                dim=32,
                depth=2,
                seq_len=16,
                num_memory_tokens=4,
                dim_head=16,
                heads=2,
            ),
            _TOKENS,
        ),
        case(
            "gateloop-transformer/Transformer",
            new("gateloop_transformer:Transformer", num_tokens=64, dim=32, depth=2),
            _TOKENS,
        ),
        case(
            "titans-pytorch/MemoryAsContextTransformer",
            new(
                "titans_pytorch:MemoryAsContextTransformer",
                num_tokens=64,
                dim=32,
                depth=2,
                segment_len=8,
                num_persist_mem_tokens=2,
                num_longterm_mem_tokens=2,
            ),
            _TOKENS,
        ),
        case(
            "mogrifier/Mogrifier",
            new("mogrifier:Mogrifier", dim=32, iters=3, factorize_k=4),
            normal(4, 32),
            normal(4, 32),
        ),
        case(
            "simple-hierarchical-transformer/HierarchicalTransformer",
            new(
                "simple_hierarchical_transformer:HierarchicalTransformer",
                num_tokens=64,
                dim=32,
                depth=2,
                seq_len=16,
                hierarchies=(1, 2),
                window_sizes=(8, None),
                use_flash_attn=False,
            ),
            _TOKENS,
        ),
    ]


def _mixtures() -> list[Case]:
    return [
        case(
            "st-moe-pytorch/MoE",
            new("st_moe_pytorch:MoE", dim=32, num_experts=4, gating_top_n=2),
            normal(16, 32),
        ),
        case(
            "soft-moe-pytorch/SoftMoE",
            new("soft_moe_pytorch:SoftMoE", dim=32, seq_len=16, num_experts=4),
            normal(16, 32),
        ),
        case(
            "mixture-of-experts/MoE",
            new("mixture_of_experts:MoE", dim=32, num_experts=4, hidden_dim=32),
            normal(16, 32),
        ),
        case(
            "product-key-memory/PKM",
            new("product_key_memory:PKM", dim=32, heads=2, num_keys=8, topk=4, dim_head=16),
            normal(16, 32),
        ),
    ]


def _others() -> list[Case]:
    return [
        case(
            "perceiver-pytorch/PerceiverIO",
            new(
                "perceiver_pytorch:PerceiverIO",
                dim=16,
                queries_dim=16,
                logits_dim=10,
                depth=2,
                num_latents=8,
                latent_dim=32,
                latent_heads=2,
                latent_dim_head=16,
                cross_dim_head=16,
                weight_tie_layers=True,
            ),
            normal(16, 16),
            queries=normal(4, 16),
        ),
        case(
            "perceiver-pytorch/PerceiverLM",
            new(
                "perceiver_pytorch.perceiver_io:PerceiverLM",
                num_tokens=64,
                dim=16,
                max_seq_len=16,
                depth=2,
                num_latents=8,
                latent_dim=32,
                latent_heads=2,
            ),
            _TOKENS,
        ),
        case(
            "tab-transformer-pytorch/TabTransformer",
            new(
                "tab_transformer_pytorch:TabTransformer",
                mlp_act=new("torch.nn:ReLU"),
                categories=(4, 5, 6),
                num_continuous=5,
                dim=16,
                depth=2,
                heads=2,
                dim_out=1,
            ),
            integers(4, 3),
            normal(5),
        ),
        case(
            "tab-transformer-pytorch/FTTransformer",
            new(
                "tab_transformer_pytorch:FTTransformer",
                categories=(4, 5, 6),
                num_continuous=5,
                dim=16,
                depth=2,
                heads=2,
                dim_out=1,
            ),
            integers(4, 3),
            normal(5),
        ),
        case(
            "itransformer/iTransformer",
            new(
                "iTransformer:iTransformer",
                num_variates=6,
                lookback_len=16,
                pred_length=(4, 8),
                dim_head=16,
                **_LAYERS,
            ),
            normal(16, 6),
        ),
        case(
            "itransformer/iTransformer2D",
            new(
                "iTransformer:iTransformer2D",
                num_variates=6,
                num_time_tokens=4,
                lookback_len=16,
                pred_length=(4, 8),
                dim_head=16,
                **_LAYERS,
            ),
            normal(16, 6),
        ),
        case(
            "isab-pytorch/ISAB",
            new("isab_pytorch:ISAB", dim=32, heads=2, num_latents=4),
            normal(16, 32),
        ),
        case(
            "conformer/Conformer",
            new(
                "conformer:Conformer",
                dim_head=16,
                ff_mult=2,
                conv_expansion_factor=2,
                conv_kernel_size=7,
                **_LAYERS,
            ),
            normal(16, 32),
        ),
        case(
            "enformer-pytorch/Enformer",
            _enformer(),
            integers(5, 1024),
        ),
        case(
            "rotary-embedding-torch/RotaryEmbedding",
            _rotary,
            normal(16, 32),
        ),
    ]


def _enformer() -> New:
    config = new(
        "enformer_pytorch:EnformerConfig",
        dim=96,
        dim_divisible_by=12,
        depth=1,
        heads=2,
        num_downsamples=4,
        target_length=-1,
        output_heads={"human": 4, "mouse": 3},
    )
    return new("enformer_pytorch:Enformer", config)


def _rotary() -> Any:
    from benchmarks.zoo_models.libraries.small_models import RotaryAttention

    return RotaryAttention(dim=32, heads=2)
