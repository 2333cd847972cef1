#!/usr/bin/env python3
"""Write the golden tokens and logits of the shipped model with Hugging Face transformers, next to the model.

The bf16 weights are run in float32 with eager attention, one token at a time with a KV cache, greedy, and without stopping at
the end of the answer. Two files come out:

golden.json        {"made_with": str, "new_tokens": 64, "logits": {"file", "prompt", "steps"}, "prompts": [20 of
                   {"question": str, "prompt": str, "prompt_ids": [int], "ids": [64 ints], "answer": str, "smallest_gap": float}]}
                   `prompt` is the question in the chat form and `prompt_ids` its tokens; `ids` are the greedy tokens after it,
                   `answer` is their text up to <|im_end|>, and `smallest_gap` the least top-2 logit gap of the 64 steps.
golden_logits.npy  float32 [16, vocab] for the prompt number `logits.prompt`: row 0 belongs to the prompt's last position and
                   row t to the position of ids[t - 1], so argmax(row t) == ids[t].

Needs torch, transformers >= 5, numpy. Takes a few seconds.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy
import torch
import transformers
from tokenizers import Tokenizer
from transformers import Qwen3ForCausalLM

from train_tiny import HERE, NEW_TOKENS, chat_prompt

# 5.24 renames the argument past_key_values, which every 5.x before it needs.
warnings.filterwarnings("ignore", message=".*past_key_values.*")

ENGLISH, CHINESE = 12, 8
LOGIT_STEPS = 16


def pick(questions: list[str], tokenizer: Tokenizer) -> list[str]:
    """The first question, then English and Chinese ones spread evenly over the prompt lengths."""
    chosen = [questions[0]]
    for english, count in ((True, ENGLISH - 1), (False, CHINESE)):
        group = [question for question in questions[1:] if question.isascii() == english]
        group.sort(key=lambda question: len(tokenizer.encode(question).ids))
        chosen += [group[round(i * (len(group) - 1) / (count - 1))] for i in range(count)]
    return chosen


@torch.no_grad()
def greedy(model: Qwen3ForCausalLM, prompt_ids: list[int]) -> tuple[list[int], torch.Tensor]:
    """NEW_TOKENS greedy ids and the logits [NEW_TOKENS, vocab] they were taken from."""
    feed, cache, ids, rows = torch.tensor([prompt_ids]), None, [], []
    for _ in range(NEW_TOKENS):
        out = model(feed, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = out.past_key_values
        rows.append(out.logits[0, -1])
        ids.append(int(rows[-1].argmax()))
        feed = torch.tensor([[ids[-1]]])
    return ids, torch.stack(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--glossary", type=Path, default=HERE / "glossary.json")
    parser.add_argument("--model", type=Path, default=HERE.parent / "09_cuda_graph_decode" / "tiny_qwen")
    args = parser.parse_args()

    torch.set_num_threads(1)  # one token of a model this small is no work for two
    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    model = Qwen3ForCausalLM.from_pretrained(args.model, dtype=torch.float32, attn_implementation="eager").eval()
    answers = {e["question"]: e["answer"] for e in json.loads(args.glossary.read_text(encoding="utf-8"))}
    end = tokenizer.token_to_id("<|im_end|>")

    prompts, wrong = [], 0
    for question in pick(list(answers), tokenizer):
        prompt_ids = tokenizer.encode(chat_prompt(question)).ids
        ids, logits = greedy(model, prompt_ids)
        if not prompts:
            numpy.save(args.model / "golden_logits.npy", logits[:LOGIT_STEPS].numpy())
        answer = tokenizer.decode(ids[: ids.index(end)] if end in ids else ids)
        wrong += answer != answers[question]
        top = logits.topk(2).values
        prompts.append(
            {
                "question": question,
                "prompt": chat_prompt(question),
                "prompt_ids": prompt_ids,
                "ids": ids,
                "answer": answer,
                "smallest_gap": round(float((top[:, 0] - top[:, 1]).min()), 3),
            }
        )
    golden = {
        "made_with": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, float32, eager",
        "new_tokens": NEW_TOKENS,
        "logits": {"file": "golden_logits.npy", "prompt": 0, "steps": LOGIT_STEPS},
        "prompts": prompts,
    }
    lines = json.dumps(golden, ensure_ascii=False, indent=1)
    (args.model / "golden.json").write_text(lines + "\n", encoding="utf-8")
    lengths = [len(prompt["prompt_ids"]) for prompt in prompts]
    print(f"{len(prompts)} prompts of {min(lengths)} to {max(lengths)} tokens, {wrong} wrong answers")
    print(f"smallest top-2 gap {min(prompt['smallest_gap'] for prompt in prompts)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
