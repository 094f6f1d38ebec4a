"""An actor and a critic in one model: episodes by hand, a loss that is a sum over an episode."""
import sys

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F

torch.set_num_threads(1)
out_dir, episodes, steps, gamma = sys.argv[1], 12, 10, 0.99
torch.manual_seed(543)


class Walk:
    """A walk on a line: action 1 goes right, where the reward is."""

    def reset(self):
        self.place = 0.0
        return torch.tensor([self.place, 1.0])

    def step(self, action):
        self.place += 0.1 if action == 1 else -0.1
        return torch.tensor([self.place, 1.0]), self.place


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1, self.action_head, self.value_head = nn.Linear(2, 16), nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


model, env = Policy(), Walk()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
running_reward = 0.0
for i_episode in range(episodes):
    state, saved, rewards = env.reset(), [], []
    for _ in range(steps):
        probs, value = model(state)
        m = Categorical(probs)
        action = m.sample()
        saved.append((m.log_prob(action), value))
        state, reward = env.step(action.item())
        rewards.append(reward)
    returns, R = [], 0.0
    for r in rewards[::-1]:
        R = r + gamma * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-8)
    policy_losses = [-log_prob * (R - value.item()) for (log_prob, value), R in zip(saved, returns)]
    value_losses = [F.smooth_l1_loss(value, torch.tensor([R])) for (_, value), R in zip(saved, returns)]
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    running_reward = 0.05 * sum(rewards) + 0.95 * running_reward
    print(f"Episode {i_episode} reward {sum(rewards):.4f} average {running_reward:.4f} loss {loss.item():.7f}")
