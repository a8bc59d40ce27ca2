"""Modules as papers, tutorials and repositories write them, for `benchmarks.torch_modules`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import pi
from typing import Any

import torch
from torch import nn
from torch.nn import functional

BATCH = 4


def _x(*shape: int) -> Any:
    return torch.randn(BATCH, *shape)


class AttentiveStatistics(nn.Module):
    """The pooling of ECAPA-TDNN: a mean and a deviation, weighted by attention over frames."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.tdnn = nn.Conv1d(3 * channels, 8, 1)
        self.norm = nn.BatchNorm1d(8)
        self.conv = nn.Conv1d(8, channels, 1)

    def forward(self, x: Any, lengths: Any) -> Any:
        frames = x.shape[-1]
        steps = torch.arange(frames, device=x.device, dtype=lengths.dtype)
        mask = (steps.expand(len(lengths), frames) < lengths.unsqueeze(1) * frames).unsqueeze(1)

        def moments(weights: Any) -> Any:
            mean = (weights * x).sum(2)
            return mean, ((weights * (x - mean.unsqueeze(2)).pow(2)).sum(2)).clamp(1e-12).sqrt()

        mean, deviation = moments(mask / mask.sum(2, keepdim=True).float())
        around = [each.unsqueeze(2).repeat(1, 1, frames) for each in (mean, deviation)]
        attention = self.conv(torch.tanh(self.norm(self.tdnn(torch.cat([x, *around], 1)).relu())))
        attention = functional.softmax(attention.masked_fill(mask == 0, float("-inf")), dim=2)
        return torch.cat(moments(attention), 1).unsqueeze(2)


class Res2Net(nn.Module):
    """A block of ECAPA-TDNN: parts of the channels one after the other, and squeeze-excitation."""

    def __init__(self, channels: int = 16, scale: int = 4) -> None:
        super().__init__()
        width = channels // scale
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(width, width, 3, dilation=2, padding=2, padding_mode="reflect"),
                nn.ReLU(),
                nn.BatchNorm1d(width),
            )
            for _ in range(scale - 1)
        )
        self.squeeze = nn.Sequential(
            nn.Conv1d(channels, 4, 1), nn.ReLU(), nn.Conv1d(4, channels, 1), nn.Sigmoid()
        )
        self.scale = scale

    def forward(self, x: Any) -> Any:
        parts: list[Any] = []
        for number, part in enumerate(torch.chunk(x, self.scale, dim=1)):
            if number == 0:
                parts.append(part)
            elif number == 1:
                parts.append(self.blocks[number - 1](part))
            else:
                parts.append(self.blocks[number - 1](part + parts[-1]))
        y = torch.cat(parts, dim=1)
        return x + y * self.squeeze(y.mean(dim=2, keepdim=True))


class Sinc(nn.Module):
    """SincNet's filters, made of two learnt frequencies each, in the first layer."""

    def __init__(self, count: int = 8, size: int = 31, rate: int = 16000) -> None:
        super().__init__()
        mel = torch.linspace(0, 2595, count + 1)
        hz = 700 * (10 ** (mel / 2595) - 1)
        self.low = nn.Parameter(hz[:-1].view(-1, 1))
        self.band = nn.Parameter(torch.diff(hz).view(-1, 1))
        self.register_buffer("window", torch.hamming_window(size)[: size // 2])
        self.register_buffer("n", 2 * pi * torch.arange(-(size // 2), 0).view(1, -1) / rate)
        self.rate = rate

    def forward(self, x: Any) -> Any:
        low = 50 + torch.abs(self.low)
        high = torch.clamp(low + 50 + torch.abs(self.band), 50, self.rate / 2)
        band = (high - low)[:, 0]
        left = (torch.sin(high @ self.n) - torch.sin(low @ self.n)) / (self.n / 2) * self.window
        filters = torch.cat([left, 2 * band.view(-1, 1), torch.flip(left, dims=[1])], dim=1)
        filters = filters / (2 * band[:, None])
        return functional.leaky_relu(functional.conv1d(x, filters.unsqueeze(1), stride=4), 0.2)


class Conformer(nn.Module):
    """A block: half a feed-forward layer, relative attention, a gated depthwise convolution."""

    def __init__(self, width: int = 16, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = (
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 2 * width),
                nn.SiLU(),
                nn.Dropout(0.1),
                nn.Linear(2 * width, width),
                nn.Dropout(0.1),
            )
            for _ in range(2)
        )
        self.norm = nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.position = nn.Linear(width, width, bias=False)
        self.u, self.v = (nn.Parameter(torch.randn(heads, width // heads)) for _ in range(2))
        self.conv = nn.Sequential(
            nn.Conv1d(width, 2 * width, 1),
            nn.GLU(dim=1),
            nn.Conv1d(width, width, 3, padding=1, groups=width),
            nn.BatchNorm1d(width),
            nn.SiLU(),
            nn.Conv1d(width, width, 1),
            nn.Dropout(0.1),
        )
        self.final = nn.LayerNorm(width)

    @staticmethod
    def shifted(scores: Any) -> Any:
        """Transformer-XL's: from distances to positions."""
        batch, heads, rows, columns = scores.size()
        zeros = scores.new_zeros(batch, heads, rows, 1)
        padded = torch.cat([zeros, scores], dim=-1).view(batch, heads, columns + 1, rows)
        return padded[:, :, 1:].view_as(scores)[:, :, :, : columns // 2 + 1]

    def forward(self, x: Any) -> Any:
        x = x + 0.5 * self.before(x)
        batch, frames, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, frames, 3, self.heads, -1).unbind(2)
        at = torch.arange(frames - 1, -frames, -1.0, device=x.device)
        rate = torch.exp(torch.arange(0, width, 2.0) * -(4.0 / width))
        around = torch.stack([torch.sin(at[:, None] * rate), torch.cos(at[:, None] * rate)], -1)
        p = self.position(around.flatten(1)).view(1, 2 * frames - 1, self.heads, -1)
        content = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        distant = torch.einsum("bihd,bjhd->bhij", q + self.v, p.expand(batch, -1, -1, -1))
        weights = ((content + self.shifted(distant)) / (width // self.heads) ** 0.5).softmax(-1)
        weights = functional.dropout(weights, 0.1, self.training)
        x = x + self.out(torch.einsum("bhij,bjhd->bihd", weights, v).reshape(batch, frames, width))
        x = x + self.conv(x.transpose(1, 2)).transpose(1, 2)
        return self.final(x + 0.5 * self.after(x))


class Vector(nn.Module):
    """A VQ-VAE whose codes are moving averages, with the gradient passed straight through."""

    def __init__(self, codes: int = 16, width: int = 8) -> None:
        super().__init__()
        self.encoder = nn.Conv2d(3, width, 4, 2, 1)
        self.decoder = nn.ConvTranspose2d(width, 3, 4, 2, 1)
        self.codes = codes
        self.register_buffer("embed", torch.randn(width, codes))
        self.register_buffer("cluster_size", torch.zeros(codes))
        self.register_buffer("embed_avg", self.embed.clone())

    def forward(self, x: Any) -> Any:
        z = self.encoder(x).permute(0, 2, 3, 1)
        flat = z.reshape(-1, z.shape[-1])
        distance = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.embed
        distance = distance + self.embed.pow(2).sum(0, keepdim=True)
        _, index = (-distance).max(1)
        one_hot = functional.one_hot(index, self.codes).type(flat.dtype)
        quantized = functional.embedding(index.view(*z.shape[:-1]), self.embed.transpose(0, 1))
        if self.training:
            with torch.no_grad():
                self.cluster_size.data.mul_(0.99).add_(one_hot.sum(0), alpha=1 - 0.99)
                self.embed_avg.data.mul_(0.99).add_(flat.transpose(0, 1) @ one_hot, alpha=1 - 0.99)
                n = self.cluster_size.sum()
                size = (self.cluster_size + 1e-5) / (n + self.codes * 1e-5) * n
                self.embed.data.copy_(self.embed_avg / size.unsqueeze(0))
        commitment = (quantized.detach() - z).pow(2).mean()
        quantized = z + (quantized - z).detach()
        return self.decoder(quantized.permute(0, 3, 1, 2)), commitment


class Modulated(nn.Module):
    """StyleGAN2's convolution: weights of each sample by its style, as groups of one call."""

    def __init__(self, inside: int = 8, outside: int = 8, style: int = 16) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, outside, inside, 3, 3))
        self.style, self.noise = nn.Linear(style, inside), nn.Parameter(torch.zeros(1))

    def forward(self, x: Any, w: Any) -> Any:
        batch, inside, height, width = x.shape
        weight = self.weight * self.style(w).view(batch, 1, inside, 1, 1)
        weight = weight * torch.rsqrt(weight.pow(2).sum([2, 3, 4]) + 1e-8).view(batch, -1, 1, 1, 1)
        weight = weight.view(-1, inside, 3, 3)
        x = functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        x = x.view(1, batch * inside, 2 * height, 2 * width)
        y = functional.conv2d(x, weight, padding=1, groups=batch).view(
            batch, -1, 2 * height, 2 * width
        )
        return functional.leaky_relu(y + self.noise * torch.randn_like(y[:, :1]), 0.2) * 2**0.5


class PixelCnn(nn.Conv2d):
    """A masked convolution, which writes to its weight's data in each call."""

    def __init__(self) -> None:
        super().__init__(2, 4, 3, padding=1)
        self.register_buffer("mask", torch.ones_like(self.weight))
        self.mask[:, :, 1, 1:] = 0
        self.mask[:, :, 2:] = 0

    def forward(self, x: Any) -> Any:
        self.weight.data *= self.mask
        return super().forward(x)


class Glow(nn.Module):
    """A step of a flow: actnorm that is set by the first batch, a 1x1 convolution, a coupling."""

    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.scale = nn.Parameter(torch.ones(1, channels, 1, 1))
        self.register_buffer("initialized", torch.tensor(0, dtype=torch.uint8))
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(channels, channels))[0])
        self.net = nn.Sequential(
            nn.Conv2d(channels // 2, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, channels, 1)
        )

    def forward(self, x: Any) -> Any:
        if self.initialized.item() == 0:
            with torch.no_grad():
                flat = x.permute(1, 0, 2, 3).contiguous().view(x.shape[1], -1)
                self.loc.data.copy_(-flat.mean(1).view(1, -1, 1, 1))
                self.scale.data.copy_(1 / (flat.std(1).view(1, -1, 1, 1) + 1e-6))
            self.initialized.fill_(1)
        height, width = x.shape[2:]
        total = height * width * self.scale.abs().log().sum()
        x = functional.conv2d(self.scale * (x + self.loc), self.weight[:, :, None, None])
        total = total + height * width * torch.slogdet(self.weight.double())[1].float()
        a, b = x.chunk(2, 1)
        log_s, t = self.net(a).chunk(2, 1)
        s = torch.sigmoid(log_s + 2)
        return torch.cat([a, (b + t) * s], 1), total + s.log().flatten(1).sum(1)


class PointNet(nn.Module):
    """A transform of points that a network finds, and a maximum over them."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU())
        self.found = nn.Sequential(nn.Linear(16, 9))
        self.head = nn.Sequential(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32))
        self.out = nn.Linear(32, 4)

    def forward(self, x: Any) -> Any:
        batch = x.size(0)
        g = torch.max(self.mlp(x), 2, keepdim=True)[0].view(-1, 16)
        eye = torch.eye(3, dtype=x.dtype, device=x.device).view(1, 9).repeat(batch, 1)
        t = (self.found(g) + eye).view(-1, 3, 3)
        x = torch.bmm(x.transpose(2, 1), t).transpose(2, 1)
        x = torch.max(functional.relu(self.head(x)), 2)[0]
        off = torch.norm(torch.bmm(t, t.transpose(2, 1)) - torch.eye(3)[None], dim=(1, 2))
        return functional.log_softmax(self.out(x), dim=1), off.mean()


class Dlrm(nn.Module):
    """Bags of ids with offsets, and products of all pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(20, 8, mode="sum") for _ in range(3))
        self.bottom = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(8 + 6, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())

    def forward(self, dense: Any, offsets: Any, indices: Any) -> Any:
        x = self.bottom(dense)
        ly = [bag(indices[k], offsets[k]) for k, bag in enumerate(self.bags)]
        batch, width = x.shape
        t = torch.cat([x, *ly], dim=1).view(batch, -1, width)
        z = torch.bmm(t, torch.transpose(t, 1, 2))
        li = torch.tensor([i for i in range(4) for j in range(i)])
        lj = torch.tensor([j for i in range(4) for j in range(i)])
        return self.top(torch.cat([x, z[:, li, lj]], dim=1))


class S4d(nn.Module):
    """A diagonal state space as a convolution by Fourier transforms."""

    def __init__(self, width: int = 8, states: int = 8) -> None:
        super().__init__()
        self.c = nn.Parameter(torch.view_as_real(torch.randn(width, states, dtype=torch.cfloat)))
        self.log_dt = nn.Parameter(torch.rand(width) * 3 - 6)
        self.log_real = nn.Parameter(torch.log(0.5 * torch.ones(width, states)))
        self.imaginary = nn.Parameter(pi * torch.arange(states).float().repeat(width, 1))
        self.d = nn.Parameter(torch.randn(width))
        self.out = nn.Sequential(nn.Conv1d(width, 2 * width, 1), nn.GLU(dim=-2))
        self.drop = nn.Dropout(0.1)

    def forward(self, u: Any) -> Any:
        length = u.size(-1)
        dt = torch.exp(self.log_dt)
        a = -torch.exp(self.log_real) + 1j * self.imaginary
        at = a * dt.unsqueeze(-1)
        power = at.unsqueeze(-1) * torch.arange(length, device=u.device)
        c = torch.view_as_complex(self.c) * (torch.exp(at) - 1.0) / a
        kernel = 2 * torch.einsum("hn, hnl -> hl", c, torch.exp(power)).real
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * length) * torch.fft.rfft(kernel, n=2 * length))
        y = y[..., :length] + u * self.d.unsqueeze(-1)
        return self.out(self.drop(functional.gelu(y)))


class Retention(nn.Module):
    """RetNet's, by chunks that hand a state on."""

    def __init__(self, width: int = 16, heads: int = 4) -> None:
        super().__init__()
        self.qkvg, self.out = nn.Linear(width, 4 * width), nn.Linear(width, width)
        self.norm, self.heads = nn.GroupNorm(heads, width), heads
        self.register_buffer("decay", torch.log(1 - 2 ** (-5.0 - torch.arange(heads))))

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        q, k, v, g = (
            each.view(batch, length, self.heads, -1).transpose(1, 2)
            for each in self.qkvg(x).chunk(4, -1)
        )
        chunk = 4
        at = torch.arange(chunk, dtype=x.dtype, device=x.device)
        inside = (at[:, None] - at[None, :]).masked_fill(at[:, None] < at[None, :], float("inf"))
        mask = torch.nan_to_num(torch.exp(inside * self.decay[:, None, None]))
        state = x.new_zeros(batch, self.heads, q.shape[-1], v.shape[-1])
        found = []
        for i in range(0, length, chunk):
            qi, ki, vi = (each[:, :, i : i + chunk] for each in (q, k, v))
            local = (qi @ ki.transpose(-1, -2) * mask) @ vi
            before = torch.exp((at + 1) * self.decay[:, None])[..., None]
            after = torch.exp((chunk - 1 - at) * self.decay[:, None])[..., None]
            found.append(local + qi @ state * before)
            state = state * torch.exp(chunk * self.decay)[:, None, None]
            state = state + (ki * after).transpose(-1, -2) @ vi
        y = torch.cat(found, 2).transpose(1, 2).reshape(batch * length, width)
        y = self.norm(y).view(batch, length, width)
        return self.out(y * functional.silu(g.transpose(1, 2).reshape(batch, length, width)))


class Capsules(nn.Module):
    """Routing by agreement, three times."""

    def __init__(self) -> None:
        super().__init__()
        self.primary = nn.Conv2d(1, 16, 3, 2)
        self.weight = nn.Parameter(0.1 * torch.randn(1, 36, 3, 8, 4))

    @staticmethod
    def squash(x: Any) -> Any:
        norm = (x**2).sum(dim=-1, keepdim=True)
        return norm / (1 + norm) / (norm.sqrt() + 1e-8) * x

    def forward(self, x: Any) -> Any:
        u = self.squash(self.primary(x).view(x.size(0), -1, 4))
        u_hat = torch.matmul(self.weight, u[:, :, None, :, None]).squeeze(-1)
        still, b = u_hat.detach(), u_hat.new_zeros(*u_hat.shape[:3], 1)
        for turn in range(3):
            c = functional.softmax(b, dim=2)
            if turn == 2:
                v = self.squash((c * u_hat).sum(dim=1))
            else:
                v = self.squash((c * still).sum(dim=1))
                b = b + (still * v.unsqueeze(1)).sum(-1, keepdim=True)
        return v.norm(dim=-1)


class Warp(nn.Module):
    """A cost volume, and an image warped by a flow, as in PWC-Net and RAFT."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Conv2d(3, 8, 3, padding=1)
        self.flow = nn.Conv2d(9 + 8, 2, 3, padding=1)

    def forward(self, a: Any, b: Any) -> Any:
        fa, fb = self.net(a), self.net(b)
        _, _, height, width = fa.shape
        padded = functional.pad(fb, [1] * 4)
        costs = [
            (fa * padded[:, :, i : i + height, j : j + width]).mean(1, keepdim=True)
            for i in range(3)
            for j in range(3)
        ]
        flow = self.flow(torch.cat([functional.leaky_relu(torch.cat(costs, 1), 0.1), fa], 1))
        ys, xs = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        grid = torch.stack([xs, ys]).float()[None] + flow
        grid = 2 * grid / torch.tensor([width - 1, height - 1]).view(1, 2, 1, 1) - 1
        grid = grid.permute(0, 2, 3, 1)
        warped = functional.grid_sample(b, grid, align_corners=True)
        valid = functional.grid_sample(torch.ones_like(b), grid, align_corners=True)
        return warped * (valid > 0.999).float(), flow


class Kan(nn.Module):
    """A layer of splines, by the recursion of de Boor."""

    def __init__(self, inside: int = 8, outside: int = 4, size: int = 5, order: int = 3) -> None:
        super().__init__()
        step = 2.0 / size
        grid = (torch.arange(-order, size + order + 1) * step - 1).expand(inside, -1).contiguous()
        self.register_buffer("grid", grid)
        self.base = nn.Parameter(torch.randn(outside, inside))
        self.spline = nn.Parameter(torch.randn(outside, inside, size + order))
        self.order = order

    def forward(self, x: Any) -> Any:
        grid, x = self.grid, x.reshape(-1, x.shape[-1])
        wide = x.unsqueeze(-1)
        bases = ((wide >= grid[:, :-1]) & (wide < grid[:, 1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            left = (wide - grid[:, : -(k + 1)]) / (grid[:, k:-1] - grid[:, : -(k + 1)])
            right = (grid[:, k + 1 :] - wide) / (grid[:, k + 1 :] - grid[:, 1:-k])
            bases = left * bases[:, :, :-1] + right * bases[:, :, 1:]
        spline = functional.linear(bases.view(x.size(0), -1), self.spline.view(4, -1))
        return functional.linear(functional.silu(x), self.base) + spline


class Decoder(nn.Module):
    """Tacotron's: location-sensitive attention in a loop of LSTM cells, with dropout."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.cell, self.query = nn.LSTMCell(2 * width, width), nn.Linear(width, 8, bias=False)
        self.memory, self.v = nn.Linear(width, 8, bias=False), nn.Linear(8, 1)
        self.location = nn.Conv1d(2, 8, 3, padding=1, bias=False)
        self.prenet, self.out = nn.Linear(width, width), nn.Linear(2 * width, width)

    def forward(self, memory: Any, lengths: Any) -> Any:
        batch, frames, width = memory.shape
        mask = torch.arange(frames)[None, :] >= lengths[:, None]
        state = memory.new_zeros(batch, width), memory.new_zeros(batch, width)
        weights, total = memory.new_zeros(2, batch, frames)
        context, frame = memory.new_zeros(2, batch, width)
        keys, found = self.memory(memory), []
        for _ in range(4):
            x = functional.dropout(self.prenet(frame).relu(), 0.5, training=True)
            hidden, cell = self.cell(torch.cat([x, context], -1), state)
            state = functional.dropout(hidden, 0.1, self.training), cell
            around = self.location(torch.stack([weights, total], 1)).transpose(1, 2)
            energy = self.v(torch.tanh(self.query(state[0]).unsqueeze(1) + keys + around))
            weights = energy.squeeze(-1).masked_fill(mask, -float("inf")).softmax(1)
            total = total + weights
            context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
            frame = self.out(torch.cat([state[0], context], -1))
            found.append(frame)
        return torch.stack(found, 1)


class Nerf(nn.Module):
    """A NeRF: encoded positions, and colours that are summed along rays."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3 + 3 * 2 * 4, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, origins: Any, directions: Any) -> Any:
        near, far, count = 1.0, 4.0, 8
        t = torch.linspace(near, far, count).expand(len(origins), count)
        if self.training:
            t = t + torch.rand_like(t) * (far - near) / count
        points = origins[:, None] + directions[:, None] * t[..., None]
        waves = [f(points * 2.0**k) for k in range(4) for f in (torch.sin, torch.cos)]
        raw = self.net(torch.cat([points, *waves], -1))
        far_away = torch.tensor([1e10]).expand(t[..., :1].shape)
        distance = torch.cat([t[..., 1:] - t[..., :-1], far_away], -1)
        alpha = 1.0 - torch.exp(-functional.relu(raw[..., 3]) * distance)
        through = torch.cumprod(torch.cat([torch.ones((len(t), 1)), 1.0 - alpha + 1e-10], -1), -1)[
            :, :-1
        ]
        weights = alpha * through
        colour = torch.sum(weights[..., None] * torch.sigmoid(raw[..., :3]), -2)
        return colour, torch.sum(weights * t, -1)


class Contrastive(nn.Module):
    """Contrastive: normed embeddings, a learnt temperature, the pairs of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(16, 8), nn.Linear(12, 8)
        self.logit_scale = nn.Parameter(torch.ones([]) * 2.6592)

    def forward(self, x: Any, y: Any) -> Any:
        a, b = (functional.normalize(each, dim=-1) for each in (self.a(x), self.b(y)))
        logits = self.logit_scale.exp().clamp(max=100) * a @ b.t()
        labels = torch.arange(len(logits), device=logits.device)
        both = functional.cross_entropy(logits, labels) + functional.cross_entropy(
            logits.t(), labels
        )
        hard = logits.masked_fill(torch.eye(len(logits), dtype=torch.bool), -1e9).argmax(1)
        return both / 2, functional.triplet_margin_loss(a, b, b[hard], margin=0.2)


class Crf(nn.Module):
    """A conditional random field over a GRU: its likelihood, and the best path."""

    def __init__(self, tags: int = 5) -> None:
        super().__init__()
        self.rnn = nn.GRU(8, 8, batch_first=True, bidirectional=True)
        self.out, self.moves = nn.Linear(16, tags), nn.Parameter(torch.randn(tags, tags))

    def forward(self, x: Any, tags: Any, mask: Any) -> Any:
        scores = self.out(self.rnn(x)[0])
        at = torch.arange(len(x))
        score = scores[at, 0, tags[:, 0]]
        alpha, best, back = scores[:, 0], scores[:, 0], []
        for i in range(1, x.shape[1]):
            step = self.moves[tags[:, i - 1], tags[:, i]] + scores[at, i, tags[:, i]]
            score = score + step * mask[:, i]
            each = alpha.unsqueeze(2) + self.moves + scores[:, i].unsqueeze(1)
            alpha = torch.where(mask[:, i].unsqueeze(1), torch.logsumexp(each, 1), alpha)
            value, index = (best.unsqueeze(2) + self.moves).max(1)
            best = torch.where(mask[:, i].unsqueeze(1), value + scores[:, i], best)
            back.append(torch.where(mask[:, i].unsqueeze(1), index, torch.arange(5)))
        path = [best.argmax(1)]
        for index in reversed(back):
            path.append(index.gather(1, path[-1].unsqueeze(1)).squeeze(1))
        return (torch.logsumexp(alpha, 1) - score).mean(), torch.stack(path[::-1], 1)


class Ode(nn.Module):
    """Runge and Kutta's fourth order, with `torch.func` for the derivative of the energy."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))

    def field(self, x: Any) -> Any:
        slope = torch.func.vmap(torch.func.grad(lambda each: self.net(each).sum()))(x)
        q, p = slope.chunk(2, -1)
        return torch.cat([p, -q], -1)

    def forward(self, x: Any) -> Any:
        h = 0.1
        for _ in range(2):
            a = self.field(x)
            b = self.field(x + h / 2 * a)
            c = self.field(x + h / 2 * b)
            x = x + h / 6 * (a + 2 * b + 2 * c + self.field(x + h * c))
        return x


class Memory(nn.Module):
    """A neural Turing machine: addresses by content, sharpened and shifted, and a memory."""

    def __init__(self) -> None:
        super().__init__()
        self.control, self.key = nn.LSTMCell(8 + 6, 12), nn.Linear(12, 6 + 1 + 1 + 3 + 1)
        self.erase, self.out = nn.Linear(12, 12), nn.Linear(12 + 6, 4)
        self.register_buffer("start", torch.full((10, 6), 1e-6))

    def forward(self, x: Any) -> Any:
        batch = x.shape[1]
        memory = self.start.repeat(batch, 1, 1)
        read, w = x.new_zeros(batch, 6), functional.one_hot(torch.zeros(batch).long(), 10).float()
        h, c, found = x.new_zeros(batch, 12), x.new_zeros(batch, 12), []
        for each in x:
            h, c = self.control(torch.cat([each, read], 1), (h, c))
            k, beta, g, s, gamma = torch.split(self.key(h), [6, 1, 1, 3, 1], 1)
            like = functional.cosine_similarity(memory + 1e-16, torch.tanh(k).unsqueeze(1), dim=-1)
            content = functional.softmax(functional.softplus(beta) * like, dim=1)
            mixed = torch.sigmoid(g) * content + (1 - torch.sigmoid(g)) * w
            around = torch.cat([mixed[:, -1:], mixed, mixed[:, :1]], 1)
            shifted = functional.conv1d(
                around.unsqueeze(0), s.softmax(1).unsqueeze(1), groups=batch
            ).squeeze(0)
            w = shifted ** (1 + functional.softplus(gamma))
            w = w / (w.sum(dim=1, keepdim=True) + 1e-16)
            e, a = self.erase(h).chunk(2, 1)
            memory = memory * (1 - torch.matmul(w.unsqueeze(-1), e.sigmoid().unsqueeze(1)))
            memory = memory + torch.matmul(w.unsqueeze(-1), a.unsqueeze(1))
            read = torch.matmul(w.unsqueeze(1), memory).squeeze(1)
            found.append(torch.sigmoid(self.out(torch.cat([h, read], 1))))
        return torch.stack(found)


def _offsets() -> Any:
    return torch.tensor([[0, 2, 3, 5]] * 3), torch.randint(0, 20, (3, 8))


WRITTEN: Mapping[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {
    "attentive statistics (ECAPA)": lambda: (
        AttentiveStatistics(),
        (_x(16, 10), torch.tensor([1.0, 0.8, 0.5, 0.9])),
    ),
    "Res2Net (ECAPA)": lambda: (Res2Net(), (_x(16, 12),)),
    "SincNet": lambda: (Sinc(), (_x(1, 200),)),
    "Conformer": lambda: (Conformer(), (_x(6, 16),)),
    "VQ-VAE": lambda: (Vector(), (_x(3, 8, 8),)),
    "StyleGAN2": lambda: (Modulated(), (_x(8, 4, 4), _x(16))),
    "PixelCNN": lambda: (PixelCnn(), (_x(2, 6, 6),)),
    "Glow": lambda: (Glow(), (_x(4, 4, 4),)),
    "PointNet": lambda: (PointNet(), (_x(3, 10),)),
    "DLRM": lambda: (Dlrm(), (_x(6), *_offsets())),
    "S4D": lambda: (S4d(), (_x(8, 12),)),
    "RetNet": lambda: (Retention(), (_x(8, 16),)),
    "capsules": lambda: (Capsules(), (_x(1, 8, 8).abs(),)),
    "warped by a flow": lambda: (Warp(), (_x(3, 6, 6), _x(3, 6, 6))),
    "KAN": lambda: (Kan(), (_x(8),)),
    "Tacotron's decoder": lambda: (Decoder(), (_x(6, 16), torch.tensor([6, 4, 3, 5]))),
    "NeRF": lambda: (Nerf(), (_x(3), _x(3))),
    "contrastive pairs": lambda: (Contrastive(), (_x(16), _x(12))),
    "CRF": lambda: (
        Crf(),
        (
            _x(6, 8),
            torch.randint(0, 5, (4, 6)),
            torch.tensor([[True] * n + [False] * (6 - n) for n in (6, 4, 5, 3)]),
        ),
    ),
    "Hamiltonian network": lambda: (Ode(), (_x(4),)),
    "neural Turing machine": lambda: (Memory(), (torch.randn(3, 4, 8),)),
}
