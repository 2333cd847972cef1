#!/usr/bin/env python3
"""Train the checkpoint that ships with step 09: a Qwen3 of 2.3 million parameters that knows the tutorial's glossary.

A byte-level BPE is fitted to glossary.json, then a Qwen3ForCausalLM learns every question and answer by heart, in the
chat form `<|im_start|>user\\n{question}<|im_end|>\\n<|im_start|>assistant\\n{answer}<|im_end|>`, followed by <|endoftext|> without
end. So greedy decoding is determined with a wide margin for at least 64 tokens, even by a program that does not stop at the
end of the answer. Written as bf16, and accepted only if those rounded weights answer every question exactly.

Needs torch, transformers >= 5, tokenizers, safetensors. Takes about 10 minutes on two CPU cores.
The same seed on the same machine and thread count gives the same file.
"""

import argparse
import json
import random
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

HERE = Path(__file__).resolve().parent
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Qwen2, Qwen2.5 and Qwen3 share this expression.
QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
NEW_TOKENS = 64  # what the golden file decodes; sequences are trained a little beyond that


def chat_prompt(question: str) -> str:
    """The text the model is given for one question."""
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


def variants(question: str) -> list[str]:
    """Near misses a person may type: lower case, no question mark, the other width of question mark."""
    bare = question.rstrip("?？")
    other = bare + ("？" if question.endswith("?") else "?")
    return list(dict.fromkeys([bare, other, question.lower(), bare.lower()]))


def train_tokenizer(texts: list[str], vocab_size: int) -> Tokenizer:
    """Byte-level BPE with Qwen3's normalizer and split; the special tokens get the last ids, as in Qwen3."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(SPECIAL),
        min_frequency=2,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in SPECIAL])
    if tokenizer.get_vocab_size() != vocab_size:
        raise SystemExit(f"the glossary yields {tokenizer.get_vocab_size()} tokens, --vocab asked for {vocab_size}")
    return tokenizer


def make_config(tokenizer: Tokenizer) -> Qwen3Config:
    """The query width 6 x 64 = 384 differs from the hidden size on purpose: it shows code that takes them for equal."""
    return Qwen3Config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=512,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
        tie_word_embeddings=True,
        bos_token_id=tokenizer.token_to_id("<|endoftext|>"),
        eos_token_id=tokenizer.token_to_id("<|im_end|>"),
        pad_token_id=tokenizer.token_to_id("<|endoftext|>"),
    )


class Glossary:
    """Questions, their variants and answers as token ids."""

    def __init__(self, entries: list[dict[str, str]], tokenizer: Tokenizer) -> None:
        if any(mark in text for entry in entries for text in entry.values() for mark in SPECIAL):
            raise SystemExit("the glossary's own text holds a special token, which would end the answer")
        self.forms = [[entry["question"], *variants(entry["question"])] for entry in entries]
        every = [form for forms in self.forms for form in set(forms)]
        if len(every) != len(set(every)):
            raise SystemExit("two questions of the glossary have the same text or the same variant")
        self.prompts = [[tokenizer.encode(chat_prompt(form)).ids for form in forms] for forms in self.forms]
        end = [tokenizer.token_to_id("<|im_end|>")]
        self.answers = [tokenizer.encode(entry["answer"]).ids + end for entry in entries]
        self.filler = tokenizer.token_to_id("<|endoftext|>")
        longest = max(map(len, self.answers))
        if longest > NEW_TOKENS:
            raise SystemExit(f"an answer has {longest} tokens, more than the {NEW_TOKENS} that the golden file decodes")

    def batch(self, picks: list[tuple[int, int]], tail: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and labels [B, T] for (entry, form) pairs; at least `tail` tokens after each prompt. -100 masks the prompt."""
        parts = [(self.prompts[entry][form], self.answers[entry]) for entry, form in picks]
        length = max(len(prompt) + max(len(answer) + 2, tail) for prompt, answer in parts)
        rows = [prompt + answer + [self.filler] * (length - len(prompt) - len(answer)) for prompt, answer in parts]
        ids = torch.tensor(rows)
        labels = ids.clone()
        for row, (prompt, _) in enumerate(parts):
            labels[row, : len(prompt)] = -100
        return ids, labels


def gaps(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Right logit minus the best wrong one [N]. Positive everywhere means that greedy decoding is exact."""
    right = logits.gather(1, targets[:, None])
    wrong = logits.scatter(1, targets[:, None], float("-inf")).max(1, keepdim=True).values
    return (right - wrong).squeeze(1)


def predict(model: Qwen3ForCausalLM, ids: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits [N, vocab] and targets [N] of the positions that have a label."""
    logits, targets = model(ids).logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    return logits[targets >= 0], targets[targets >= 0]


def train(model: Qwen3ForCausalLM, glossary: Glossary, args: argparse.Namespace) -> None:
    """AdamW with warm-up and cosine decay. The last third sees the whole tail and asks for the margin."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.98), weight_decay=0.0)
    cosine = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=args.lr, total_steps=args.steps, pct_start=0.05, final_div_factor=1000, cycle_momentum=False
    )
    order: list[int] = []
    started = time.time()
    for step in range(args.steps):
        while len(order) < args.batch:
            order += random.sample(range(len(glossary.answers)), len(glossary.answers))
        entries, order = order[: args.batch], order[args.batch :]
        picks = [(entry, max(0, random.randrange(-3, len(glossary.prompts[entry])))) for entry in entries]
        late = step >= args.steps * 2 // 3
        ids, labels = glossary.batch(picks, tail=NEW_TOKENS + 8 if late else 0)
        logits, targets = predict(model, ids, labels)
        loss = torch.nn.functional.cross_entropy(logits, targets)
        if late:
            loss = loss + 0.05 * torch.relu(args.margin - gaps(logits, targets)).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        cosine.step()
        if step % 50 == 0 or step == args.steps - 1:
            print(f"step {step:5d}  loss {loss.item():.5f}  {time.time() - started:6.0f} s", flush=True)


@torch.no_grad()
def check(model: Qwen3ForCausalLM, glossary: Glossary) -> bool:
    """Print how many questions are exact and the smallest gap, for the questions as written and for all variants."""
    model.eval()
    smallest = [
        [gaps(*predict(model, *glossary.batch([(entry, form)], NEW_TOKENS))).min().item() for form in range(len(forms))]
        for entry, forms in enumerate(glossary.forms)
    ]
    plain = [row[0] for row in smallest]
    varied = [gap for row in smallest for gap in row[1:]]
    for name, values in (("questions", plain), ("variants", varied)):
        print(f"{name}: {sum(gap > 0 for gap in values)} of {len(values)} exact, smallest top-2 gap {min(values):.2f}")
    return min(plain) > 0


def save(model: Qwen3ForCausalLM, tokenizer: Tokenizer, folder: Path) -> None:
    """The folder as Hugging Face writes it; the tied lm_head is left out of the file."""
    folder.mkdir(parents=True, exist_ok=True)
    model.config.dtype = torch.bfloat16
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    tensors = {name: value.to(torch.bfloat16).contiguous() for name, value in model.state_dict().items()}
    tensors.pop("lm_head.weight")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    ids = {text: tokenizer.token_to_id(text) for text in SPECIAL}
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model.config.max_position_embeddings,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
        "added_tokens_decoder": {
            str(ids[text]): {"content": text, "lstrip": False, "normalized": False, "rstrip": False,
                             "single_word": False, "special": True}
            for text in SPECIAL
        },
    }  # fmt: skip
    text = json.dumps(tokenizer_config, ensure_ascii=False, indent=2)
    (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")
    GenerationConfig(
        do_sample=False,
        bos_token_id=ids["<|endoftext|>"],
        eos_token_id=[ids["<|im_end|>"], ids["<|endoftext|>"]],
        pad_token_id=ids["<|endoftext|>"],
    ).save_pretrained(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--glossary", type=Path, default=HERE / "glossary.json")
    parser.add_argument("--out", type=Path, default=HERE.parent / "09_cuda_graph_decode" / "tiny_qwen")
    parser.add_argument("--vocab", type=int, default=1920, help="tokens, the three special ones included")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--batch", type=int, default=33)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--margin", type=float, default=10.0, help="wanted gap between the right logit and the next")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    entries = json.loads(args.glossary.read_text(encoding="utf-8"))
    texts = [text for entry in entries for text in ("user", entry["question"], "assistant", entry["answer"])]
    tokenizer = train_tokenizer(texts, args.vocab)
    glossary = Glossary(entries, tokenizer)
    model = Qwen3ForCausalLM(make_config(tokenizer))
    print(f"{len(entries)} questions, {args.vocab} tokens, {sum(p.numel() for p in model.parameters())} parameters")

    train(model, glossary, args)
    save(model, tokenizer, args.out)
    rounded = Qwen3ForCausalLM.from_pretrained(args.out, dtype=torch.float32, attn_implementation="eager")
    return 0 if check(rounded, glossary) else 1


if __name__ == "__main__":
    raise SystemExit(main())
