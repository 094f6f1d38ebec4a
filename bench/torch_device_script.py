"""A training script in PyTorch whose model is on a device: as a worker of a job, or by PyTorch alone.

    torch_device_script.py mlp|gpt [--batch B] [--steps N] [--device cuda|cpu] [--small]           started by capstan launch
    torch_device_script.py mlp ... --alone       prints the losses of the same steps by PyTorch alone, in a line of JSON

mlp computes in fp32, the same bits in each run; gpt is GPT-2 124M under autocast to bf16. B is the job's global batch. Exits
with 77 without PyTorch or without the device.
"""
import argparse
import json
import os
import sys

os.environ.setdefault('CUBLAS_WORKSPACE_CONFIG', ':4096:8')  # without it cuBLAS may add up in another order in each run

try:
    import torch
    import torch_device_train
    from torch.nn import functional as F
    from torch.utils.data import DataLoader, TensorDataset
except ImportError:
    print('torch_device_script: SKIPPED, PyTorch is not installed', file=sys.stderr)
    sys.exit(77)

SAMPLES = 512
JOB_SEED = 1  # job.seed


def make(options):
    """Returns the model on the device, its optimizer, and its data on the host."""
    torch.manual_seed(5)
    model, _, _, _, _ = torch_device_train.make(options)
    generator = torch.Generator().manual_seed(7)
    if options.model == 'gpt':
        tokens = torch.randint(64 if options.small else 50257, (SAMPLES, options.length + 1), generator=generator)
        data = TensorDataset(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
    else:
        x = torch.randn(SAMPLES, 784, generator=generator)
        data = TensorDataset(x, x[:, :10].argmax(dim=1))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3), data


def loss_of(model, x, y, options):
    with torch.autocast(options.device, torch.bfloat16, enabled=options.model == 'gpt'):
        return F.cross_entropy(model(x.to(options.device)), y.to(options.device).flatten())


def as_worker(options):
    import capstan.torch

    model, optimizer, data = make(options)
    trainer = capstan.torch.connect()
    model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data, options.batch, shuffle=True))
    for _ in trainer.epochs():
        for x, y in loader:
            loss = loss_of(model, x, y, options)
            optimizer.zero_grad()
            trainer.backward(loss)
            optimizer.step()


def alone(options):
    """Trains with the batches that the job would choose."""
    from capstan.torch.batches import Plan
    from capstan.torch.orders import shuffled

    model, optimizer, data = make(options)
    plan = Plan(shuffled(SAMPLES, JOB_SEED), samples=SAMPLES, global_batch=options.batch, slots=1, batch=options.batch,
                drop_last=False)
    losses = []
    for step in range(options.steps):
        piece, = plan.pieces(step, 0)
        loss = loss_of(model, *data[list(piece.samples)], options)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(json.dumps(losses))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('model', choices=['mlp', 'gpt'])
    parser.add_argument('--batch', type=int, default=32)
    parser.add_argument('--length', type=int, default=1024)
    parser.add_argument('--steps', type=int, default=20)
    parser.add_argument('--device', choices=['cuda', 'cpu'], default='cuda')
    parser.add_argument('--small', action='store_true')
    parser.add_argument('--alone', action='store_true')
    options = parser.parse_args()
    if options.device == 'cuda' and not torch.cuda.is_available():
        print('torch_device_script: SKIPPED, PyTorch sees no CUDA device', file=sys.stderr)
        return 77
    torch.use_deterministic_algorithms(options.model == 'mlp')
    (alone if options.alone else as_worker)(options)
    return 0


if __name__ == '__main__':
    sys.exit(main())
