"""A replica is its vector: reading, writing and stepping one is reading, writing and stepping the other."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from littoral.errors import InputError
from littoral.learning.replica import Replica, Twin
from littoral.learning.task import load_task
from littoral.tasks.synthetic import Synthetic

torch.set_num_threads(1)


def task(model: str = "mlp") -> Synthetic:
    made = load_task("littoral.tasks.synthetic", {"samples": 64, "test_samples": 40, "model": model, "width": 0.5})
    assert isinstance(made, Synthetic)
    return made


class Odd(Synthetic):
    """A task with a model of one's own."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(features=4, classes=4)
        self.module = module

    def model(self) -> nn.Module:
        return self.module


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.unused = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(1, 1)
        self.second.weight = self.first.weight
        self.first.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.second(self.first(x))
        return result


def test_the_seed_decides_and_the_global_generator_does_not() -> None:
    state = torch.random.get_rng_state()
    first = Replica(task(), 7)
    assert torch.equal(state, torch.random.get_rng_state())
    torch.rand(5)
    assert torch.equal(first.vector, Replica(task(), 7).vector)
    assert not torch.equal(first.vector, Replica(task(), 8).vector)


@pytest.mark.parametrize("name", ["mlp", "lenet", "resnet8"])
def test_one_step_equals_torch_on_the_plain_model(name: str) -> None:
    replica, data = Replica(task(name), 0), task(name).data()
    plain = copy.deepcopy(replica.model)
    x, y = data.train_x[:16], data.train_y[:16]
    before = replica.vector.clone()
    gradient, loss = replica.gradient(x, y)
    assert torch.equal(replica.vector, before), "a gradient must not change the replica"

    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    expected = nn.functional.cross_entropy(plain(x), y)
    expected.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    replica.vector[: replica.trained] -= 0.1 * gradient[: replica.trained]
    replica.vector[replica.trained :] -= gradient[replica.trained :]
    assert loss == pytest.approx(expected.item())
    for (key, ours), theirs in zip(replica.model.state_dict().items(), plain.state_dict().values(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6), key


def test_each_gradient_is_fresh() -> None:
    replica, data = Replica(task("resnet8"), 0), task("resnet8").data()
    first, _ = replica.gradient(data.train_x[:8], data.train_y[:8])
    kept = first.clone()
    second, _ = replica.gradient(data.train_x[8:16], data.train_y[8:16])
    assert torch.equal(first, kept) and not torch.equal(first, second)
    again, _ = replica.gradient(data.train_x[:8], data.train_y[:8])
    assert torch.equal(again, kept), "gradients must not accumulate"


def test_batch_norm_statistics_ride_in_the_tail() -> None:
    replica = Replica(task("resnet8"), 0)
    assert 0 < replica.trained < len(replica)
    replica.vector[replica.trained :] = 0.25
    buffers = [b for b in replica.model.buffers() if b.is_floating_point()]
    assert buffers and all((b == 0.25).all() for b in buffers)
    data = task().data()
    gradient, _ = replica.gradient(data.train_x[:8], data.train_y[:8])
    assert gradient[replica.trained :].abs().sum() > 0


def test_load_copies_a_slice_and_adopt_shares() -> None:
    replica = Replica(task(), 0)
    piece = torch.full((3,), 5.0)
    replica.load(piece, start=4)
    assert next(replica.model.parameters()).flatten()[3:8].tolist()[1:4] == [5.0] * 3
    whole = torch.zeros(len(replica))
    replica.adopt(whole)
    whole.fill_(2.0)
    assert all((p == 2.0).all() for p in replica.model.parameters()) and replica.vector is whole
    piece.fill_(9.0)
    assert replica.vector.max() == 2.0


@pytest.mark.parametrize("wrong", [torch.zeros(3), torch.zeros(7510, dtype=torch.float64)])
def test_a_vector_of_another_model_is_refused(wrong: Tensor) -> None:
    replica = Replica(task(), 0)
    with pytest.raises(InputError, match=str(len(replica))):
        replica.adopt(wrong)
    with pytest.raises(InputError, match="agree"):
        replica.load(torch.zeros(2), start=len(replica) - 1)


def test_tied_frozen_and_unused_parameters() -> None:
    replica = Replica(Odd(Tied()), 0)
    assert (replica.trained, len(replica)) == (16 + 4 + 2, 26)
    gradient, _ = replica.gradient(torch.rand(5, 4), torch.zeros(5, dtype=torch.int64))
    assert gradient.shape == (26,)
    assert gradient[-4:].tolist() == [0.0] * 4, "what is frozen does not move"
    replica.vector.fill_(0.5)
    assert replica.model.get_parameter("first.bias").tolist() == [0.5] * 4


def test_a_model_of_doubles_is_refused() -> None:
    with pytest.raises(InputError, match=r"0\.weight is torch\.float64"):
        Replica(Odd(nn.Sequential(nn.Linear(4, 4).double())), 0)


def test_evaluation_uses_the_running_statistics_and_leaves_them() -> None:
    problem = task("resnet8")
    replica, data = Replica(problem, 0), problem.data()
    before = replica.vector.clone()
    result = replica.evaluate(data, problem)
    assert replica.model.training and torch.equal(before, replica.vector)
    with torch.no_grad():
        output = replica.model.eval()(data.test_x)
    assert result.accuracy == pytest.approx((output.argmax(1) == data.test_y).float().mean().item())
    assert result.loss == pytest.approx(nn.functional.cross_entropy(output, data.test_y).item(), rel=1e-5)


@pytest.mark.parametrize("model", ["lenet", "resnet8"])
def test_a_twin_computes_the_same_gradient_elsewhere(model: str) -> None:
    task = load_task("littoral.tasks.digits", {"model": model})
    data, here, twin = task.data(), Replica(task, 3), Twin(task, "cuda:0" if torch.cuda.is_available() else "cpu")
    x, y = data.train_x[:16], data.train_y[:16]
    vector = here.vector.clone()
    for _ in range(2):  # the second one from where the first has left nothing behind
        (there, loss), (mine, own_loss) = twin.gradient(here.vector, x, y), here.gradient(x, y)
        torch.testing.assert_close(there, mine, rtol=1e-2, atol=5e-3)  # a card's convolutions round to ten bits
        assert loss == pytest.approx(own_loss, rel=1e-3)
        assert there.device.type == "cpu" and torch.equal(here.vector, vector)
