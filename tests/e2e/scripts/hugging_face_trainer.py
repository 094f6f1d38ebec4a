"""A tiny GPT-2 by Hugging Face's Trainer. Its model comes from a configuration, and its texts from a formula."""
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

torch.set_num_threads(1)
out_dir, accumulate = sys.argv[1], int(sys.argv[2])


class LanguageTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **kwargs)
        if model.training:
            rate = self.optimizer.param_groups[0]["lr"]
            print(f"step {self.state.global_step} rate {rate:.7f} loss {loss.item():.7f}", flush=True)
        return (loss, outputs) if return_outputs else loss

    def evaluate(self, *args, **kwargs):
        metrics = super().evaluate(*args, **kwargs)
        print(f"validation {metrics['eval_loss']:.7f}", flush=True)
        return metrics


set_seed(11)
config = GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
texts = [(first * 3 + 5 * torch.arange(16)) % 64 for first in torch.randint(0, 64, (128, 1))]
data = [{"input_ids": text, "labels": text} for text in texts]
arguments = TrainingArguments(out_dir, per_device_train_batch_size=16, gradient_accumulation_steps=accumulate, num_train_epochs=3,
                              learning_rate=1e-2, warmup_steps=4, eval_strategy="epoch", save_strategy="epoch", logging_steps=1,
                              report_to=[], use_cpu=True, disable_tqdm=True)
trainer = LanguageTrainer(GPT2LMHeadModel(config), arguments, train_dataset=data, eval_dataset=data[:32])
trainer.train()
trainer.save_model(f"{out_dir}/final")
