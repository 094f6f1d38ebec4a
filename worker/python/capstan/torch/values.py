"""The values of a script's model: set to the job's when a round begins, and checked for other changes when a slot
ends."""
from __future__ import annotations

import torch

from capstan.tensors import Tensors
from capstan.torch.guards import Constants, Weights, refuse_new
from capstan.torch.parameters import Parameter, copied, lay_over
from capstan.torch.statistics import Statistics, Wishes, places_of


class Values:
    """Parameters, which the servers train; statistics, which they store; constants, which do not change."""

    def __init__(self, model: torch.nn.Module, parameters: list[Parameter], wishes: Wishes) -> None:
        trained = {id(entry.parameter) for entry in parameters}
        places = [place for place in places_of(model) if id(place.value) not in trained]
        counters = [place for place in places if place.is_counter]
        kinds = {place.name: wishes.of(place) for place in places}
        wishes.must_be_used()
        self._model, self.parameters = model, parameters
        self.statistics = Statistics([place for place in places if kinds[place.name] == "mean"],
                                     [place for place in counters if kinds[place.name] is None])
        self.constants = Constants([place for place in places if kinds[place.name] is None and place not in counters])
        self._weights = Weights(parameters)
        self._known = {name for name, _ in model.named_parameters()}
        self._memory: Tensors | None = None  # the round's weights
        self._looked = False  # checked that the model is still the prepared one

    def round_begins(self, step: int, memory: Tensors) -> None:
        """The round's weights are in the client's memory; puts them into the model."""
        self._memory = memory
        lay_over(self.parameters, memory)
        self.statistics.lay_over(memory, step)
        self._weights.round_begins()

    def slot_ends(self, step: int, gradients: Tensors) -> None:
        """Checks for other changes, and writes the observed statistics next to the gradients."""
        assert self._memory is not None
        if not self._looked:
            refuse_new(self._model, self._known, self.parameters, step)
            self._looked = True
        self._weights.check(step, self._memory)
        self.constants.check(step)
        self.statistics.observe(gradients)

    def slot_is_over(self, step: int, gradients: Tensors) -> None:
        """Like slot_ends(), where the script makes the weights itself."""
        if not self._looked:
            refuse_new(self._model, self._known, self.parameters, step)
            self._looked = True
        self.constants.check(step)
        self.statistics.observe(gradients)

    def slot_is_skipped(self) -> None:
        self.statistics.restore()

    def take(self, weights: Tensors, step: int) -> None:
        """Puts the job's last weights into the model."""
        with torch.no_grad():
            for entry in self.parameters:
                entry.parameter.copy_(copied(weights[entry.name], entry.parameter))
        self.statistics.take(weights, step)
