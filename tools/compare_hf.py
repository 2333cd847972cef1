#!/usr/bin/env python3
"""Compare the logits of step 09 with Hugging Face transformers on a model with random weights.

A folder with seeded bf16 weights is made once (several shards and an index). On one prompt, Hugging Face decodes greedily in
float32: that is the reference. Its bf16 run and step 09 are then fed the same tokens, so the three can be compared position by
position. Two things must hold, else the exit status is 1:

  mean |logit - reference| of step 09 is at most 1.2 times that of Hugging Face bf16;
  step 09's greedy token is the reference's wherever the reference's two best logits are further apart than the largest error
  of Hugging Face bf16 at that position.

Families: `qwen2` is the article's shape (28 layers, hidden 1024, 8 query and 2 KV heads of 128, intermediate 4864, vocabulary
151 936, tied; Qwen2 has exactly these operators and q/k/v biases, which are 0 here). `qwen3` is the shape of Qwen3-0.6B:
QK-norm, and queries twice as wide as the hidden state. `--tiny` shrinks either one, to try this script without a GPU.

Needs torch, transformers >= 5, numpy. Runs on the GPU where torch sees one.
"""

import argparse
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy
import torch
from transformers import (
    AutoModelForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

# 5.24 renames the argument past_key_values, which every 5.x before it needs.
warnings.filterwarnings("ignore", message=".*past_key_values.*")

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 1.2
CONTEXTS = [1, 2, 63, 64, 65, 1000, 4096]  # around a tile's size, and longer than one piece of a prefill


def make_config(family: str, tiny: bool) -> Qwen2Config | Qwen3Config:
    common = dict(
        max_position_embeddings=32768,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
        tie_word_embeddings=True,
    )
    if family == "qwen2":
        shape = dict(num_hidden_layers=28, hidden_size=1024, num_attention_heads=8, num_key_value_heads=2,
                     intermediate_size=4864, vocab_size=151936)  # fmt: skip
        small = dict(num_hidden_layers=3, hidden_size=256, num_attention_heads=4, num_key_value_heads=1,
                     intermediate_size=320, vocab_size=1000)  # fmt: skip
        return Qwen2Config(**common, **(small if tiny else shape))
    shape = dict(num_hidden_layers=28, hidden_size=1024, num_attention_heads=16, num_key_value_heads=8, head_dim=128,
                 intermediate_size=3072, vocab_size=151936)  # fmt: skip
    small = dict(num_hidden_layers=3, hidden_size=128, num_attention_heads=6, num_key_value_heads=2, head_dim=64,
                 intermediate_size=320, vocab_size=1000)  # fmt: skip
    return Qwen3Config(**common, **(small if tiny else shape))


@torch.no_grad()
def make_model(folder: Path, family: str, tiny: bool, seed: int) -> None:
    """Save seeded bf16 weights. Layers of standard deviation 1/sqrt(fan in) keep the residual stream from being the tied
    embedding alone, which would make the last token repeat itself; norm weights vary so that a lost one is seen."""
    torch.manual_seed(seed)
    model = {"qwen2": Qwen2ForCausalLM, "qwen3": Qwen3ForCausalLM}[family](make_config(family, tiny))
    for name, weight in model.named_parameters():
        if "norm" in name:
            weight.normal_(1.0, 0.1)
        elif name.endswith("bias"):
            weight.zero_()
        else:
            weight.normal_(0.0, 0.02 if "embed" in name else weight.shape[1] ** -0.5)
    model.to(torch.bfloat16).save_pretrained(folder, max_shard_size="200KB" if tiny else "400MB")


def load(folder: Path, dtype: torch.dtype, device: str) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval().to(device)


@torch.no_grad()
def decode(
    model: PreTrainedModel, prompt: list[int], steps: int, forced: list[int] | None
) -> tuple[torch.Tensor, list[int]]:
    """Logits float32 [steps, vocab] on the CPU and the tokens fed after the prompt: `forced`, or else the greedy ones."""
    feed, cache, rows, tokens = torch.tensor([prompt], device=model.device), None, [], []
    for step in range(steps):
        out = model(feed, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = out.past_key_values
        rows.append(out.logits[0, -1].float().cpu())
        tokens.append(forced[step] if forced else int(rows[-1].argmax()))
        feed = torch.tensor([[tokens[-1]]], device=model.device)
    return torch.stack(rows), tokens


def run_step09(program: Path, folder: Path, prompt: list[int], forced: list[int], vocab: int) -> torch.Tensor:
    """Logits float32 [len(forced), vocab] of step 09, fed with the same tokens."""
    with tempfile.TemporaryDirectory() as scratch:
        logits = Path(scratch) / "logits.npy"
        command = [str(program), "--model", str(folder), "--tokens", ",".join(map(str, prompt)), "--teacher-force",
                   ",".join(map(str, forced)), "--max-new-tokens", str(len(forced)), "--logits", str(logits)]  # fmt: skip
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if done.returncode != 0:
            raise SystemExit(f"{program} ended with status {done.returncode}:\n{done.stdout[-2000:]}")
        rows = numpy.load(logits)
    if rows.shape != (len(forced), vocab) or rows.dtype != numpy.float32:
        raise SystemExit(f"{program} wrote {rows.dtype} {rows.shape}, expected float32 {(len(forced), vocab)}")
    return torch.from_numpy(rows)


def compare(reference: torch.Tensor, half: torch.Tensor, ours: torch.Tensor) -> bool:
    """Print the comparison of logits [steps, vocab]; true if both conditions hold."""
    half_error, our_error = (half - reference).abs(), (ours - reference).abs()
    ratio = (our_error.mean() / half_error.mean()).item()
    best = reference.topk(2)
    gap = best.values[:, 0] - best.values[:, 1]
    decided = gap > half_error.max(1).values
    same, half_same = ours.argmax(1) == best.indices[:, 0], half.argmax(1) == best.indices[:, 0]
    close = ratio <= LIMIT  # a NaN is not
    tokens = bool(same[decided].all())
    print(f"  mean |dlogit|    step 09 {our_error.mean():.6f}   Hugging Face bf16 {half_error.mean():.6f}")
    print(f"  max  |dlogit|    step 09 {our_error.max():.6f}   Hugging Face bf16 {half_error.max():.6f}")
    print(f"  ratio of means   {ratio:.3f}, at most {LIMIT}: {'ok' if close else 'FAILED'}")
    print(f"  greedy tokens    {int(same[decided].sum())} of {int(decided.sum())} decided positions equal: "
          f"{'ok' if tokens else 'FAILED'}")  # fmt: skip
    print(
        f"                   of all {len(same)} positions: step 09 {int(same.sum())}, Hugging Face bf16 {int(half_same.sum())}"
    )
    for step in (decided & ~same).nonzero().flatten()[:8].tolist():
        print(f"  step {step}: reference {best.indices[step, 0]}, step 09 {ours[step].argmax()}, gap {gap[step]:.4f}, "
              f"bf16 error {half_error[step].max():.4f}")  # fmt: skip
    return close and tokens


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--step09", type=Path, default=ROOT / "build" / "bin" / "step09")
    parser.add_argument("--folder", type=Path, help="where the model is kept; default build/compare_hf/FAMILY")
    parser.add_argument("--family", choices=["qwen2", "qwen3"], default="qwen2")
    parser.add_argument("--contexts", type=int, nargs="+", default=CONTEXTS if torch.cuda.is_available() else [128],
                        help="prompt lengths in tokens; default: %(default)s")  # fmt: skip
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--tiny", action="store_true", help="a small shape")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if not args.step09.is_file():
        parser.error(f"no program {args.step09}: build it, or name it with --step09")

    torch.set_float32_matmul_precision("highest")
    folder = args.folder or ROOT / "build" / "compare_hf" / f"{args.family}{'-tiny' if args.tiny else ''}-{args.seed}"
    if not (folder / "config.json").is_file():
        make_model(folder, args.family, args.tiny, args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    vocab = make_config(args.family, args.tiny).vocab_size
    prompts = [
        torch.randint(vocab, (length,), generator=torch.Generator().manual_seed(args.seed + length)).tolist()
        for length in args.contexts
    ]

    model = load(folder, torch.float32, device)
    references = [decode(model, prompt, args.new_tokens, None) for prompt in prompts]
    model = load(folder, torch.bfloat16, device)
    halves = [decode(model, prompt, args.new_tokens, tokens)[0] for prompt, (_, tokens) in zip(prompts, references)]
    del model
    torch.cuda.empty_cache()

    good = True
    for prompt, (reference, tokens), half in zip(prompts, references, halves):
        print(
            f"{args.family}, prompt of {len(prompt)} tokens, {len(tokens)} new ones ({len(set(tokens))} distinct), {device}"
        )
        good &= compare(reference, half, run_step09(args.step09, folder, prompt, tokens, vocab))
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
