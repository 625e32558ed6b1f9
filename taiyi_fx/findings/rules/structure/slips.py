"""Code that does not what it seems to, in a model's classes and in the loop that trains it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.source.slip import Slip
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind


def _of_any(evidence: Evidence) -> bool:
    """True: the code says it all."""
    return True


def _averages(evidence: Evidence) -> bool:
    """True for a model with a BatchNorm, whose averages are no parameters."""
    return any(one.momentum > 0 for one in evidence.model.settings.values())


def _acts_otherwise_in_evaluation(evidence: Evidence) -> bool:
    return _averages(evidence) or evidence.model.has_dropout


def _has_the_batch_first(evidence: Evidence) -> bool:
    """True if all layers that may take another axis take the first one for that of the batch."""
    axes = evidence.model.batch_axes
    return bool(axes) and not any(axes.values())


_LINEAR = frozenset("ReLU ReLU6 LeakyReLU PReLU RReLU Hardtanh Threshold".split())
_PLAIN = frozenset("Linear Sequential ModuleList Identity Flatten Dropout".split())
_OF_TORCH = "torch.nn.modules."
_FUNCTIONS = frozenset(
    "relu relu_ leaky_relu relu6 hardtanh linear cat stack add sub view reshape flatten squeeze "
    "unsqueeze getitem split chunk t".split()
)


def _is_of_straight_lines(evidence: Evidence) -> bool:
    """True for a model of linear layers and of activations without a curve, as far as is known."""
    known = {name: own.kind for name, own in evidence.model.attributes.items()}
    of_torch = {kind.rpartition(".")[2] for kind in known.values() if kind.startswith(_OF_TORCH)}
    between = {x for name in known for x in evidence.flow.before_module(name)}
    bends = of_torch & _LINEAR or between & {"relu", "relu_", "leaky_relu"}
    return bool(bends) and of_torch <= _LINEAR | _PLAIN and between <= _FUNCTIONS


@dataclass(frozen=True)
class SlipKind(Kind):
    """A kind of slips.

    Attributes:
        seen: What the code does, behind its text.
        is_one: Asked of a model whether it is a slip there.
    """

    seen: str
    is_one: Callable[[Evidence], bool] = _of_any


SLIP_KINDS = (
    SlipKind(
        "constant_penalty",
        "alert",
        "Compute the derivative with create_graph=True: without it the term is a number to "
        "backward, and no weight feels it",
        "keeps no graph, and a term of the loss is made of it: that has no gradient",
    ),
    SlipKind(
        "constant_derivative",
        "alert",
        "Compute the derivative with create_graph=True: without it the residual's gradient leaves "
        "it out",
        "keeps no graph, and the loss compares the derivative with the output that it is of: no "
        "weight feels what the derivative should be",
    ),
    SlipKind(
        "flat_derivative",
        "alert",
        "Take tanh, sin, softplus or another smooth activation: the second derivative of ReLUs "
        "and linear layers is exactly 0, so that no weight feels what it should be",
        "differentiates twice, and the model is made of straight lines alone: its second "
        "derivative is 0 everywhere",
        _is_of_straight_lines,
    ),
    SlipKind(
        "constant_term",
        "warning",
        "Add the tensor itself, without item(), detach() or numpy()",
        "is a number to backward, and a term of the loss all the same: it has no gradient",
    ),
    SlipKind(
        "lost_term",
        "warning",
        "Add the two up, loss = loss + ..., or sum over the turns of the loop",
        "is computed, and another value takes its place before anything reads it: it is no "
        "part of what backward is called of",
    ),
    SlipKind(
        "cleared_between",
        "warning",
        "Call zero_grad() before the loop over parts of a batch, or behind the step, so that their "
        "gradients add up",
        "clears the gradients before each backward, though a step is taken but once for several "
        "of them: those of the last alone count",
    ),
    SlipKind(
        "clipped_between",
        "warning",
        "Clip once, behind the loop over parts of a batch, right before the step",
        "clips the gradients after each backward, though a step is taken but once for several of "
        "them: those of the first parts are clipped again and again, and the last ones count most",
    ),
    SlipKind(
        "early_clearing",
        "warning",
        "Call zero_grad() right before the backward of the optimizer's own loss; or detach() what "
        "the other loss is given, as what a generator makes in its judge's loss",
        "comes before another loss's backward through the same weights: what that leaves there is "
        "part of the next step",
    ),
    SlipKind(
        "late_clipping",
        "warning",
        "Clip between backward and the optimizer's step",
        "comes when the optimizer's step is over, and before the next backward: it clips "
        "nothing that a step is taken by",
    ),
    SlipKind(
        "scaled_clipping",
        "warning",
        "Call scaler.unscale_(optimizer) behind backward, before clipping",
        "clips gradients that are still multiplied by the scaler's scale, as nothing calls "
        "unscale_ before it: what is left of them is next to nothing",
    ),
    SlipKind(
        "stuck_scaler",
        "warning",
        "Call scaler.update() behind each scaler.step(optimizer)",
        "is called of a scaler that is never updated: its scale stays as it is, so that a step "
        "with an overflow is followed by more of them",
    ),
    SlipKind(
        "reseeded",
        "warning",
        "Seed once, before the loop: in it each step draws the same noise, dropout and samples",
        "begins the random numbers anew in each step of the training",
    ),
    SlipKind(
        "remade_optimizer",
        "warning",
        "Make it once, before the loop",
        "makes the optimizer anew in each turn of the loop, for a model that stays: its "
        "momentum and its moments are lost each time",
    ),
    SlipKind(
        "misplaced_schedule",
        "warning",
        "Step it where its length is counted: with each epoch for a number of epochs, with each "
        "batch for epochs * len(loader)",
        "steps a schedule in other turns than its length is counted in, epochs or batches",
    ),
    SlipKind(
        "turned_plateau",
        "warning",
        'Give the schedule the mode of what it is stepped by: mode="min" for a loss, mode="max" '
        "for an accuracy",
        "steps a schedule by what gets better the other way: it takes each gain for none, and "
        "lowers the learning rate",
    ),
    SlipKind(
        "live_state",
        "warning",
        "Keep a copy: copy.deepcopy(model.state_dict())",
        "is the model's own tensors, which go on changing: what is loaded from it at the end "
        "are the last weights",
    ),
    SlipKind(
        "lagging_target",
        "warning",
        "Load the trained weights into it every some hundred steps, or move it towards them a "
        "little in each",
        "makes a target network that nothing ever brings up to date with the trained one",
    ),
    SlipKind(
        "doubly_trained",
        "warning",
        "Give each optimizer the parameters of its own model alone",
        "trains a model that the loop's other optimizer trains, too: each undoes what the other's "
        "steps do",
    ),
    SlipKind(
        "uncumulated_noise",
        "warning",
        "Take the product of all steps so far: torch.cumprod(alphas, 0)[t]",
        "noises a sample by the share of the one step t, and not by that of all steps up to it",
    ),
    SlipKind(
        "product_of_betas",
        "warning",
        "Take it of 1 - betas: torch.cumprod(1 - betas, 0)",
        "is the product of the shares of noise, and not of what is left of a sample: next to 0 "
        "from the first steps on, so that samples are nothing but noise",
    ),
    SlipKind(
        "mispaired_views",
        "warning",
        "Join the views by torch.cat([first, second]) for pairs half a batch apart, and stack them "
        "for neighbours",
        "puts the two views of a sample elsewhere than where the loss looks for them",
    ),
    SlipKind(
        "mistaken_tensor",
        "warning",
        "Save the tensor that backward computes with, and in the same order; "
        "torch.autograd.gradcheck compares the two",
        "is saved for backward, which takes it by the name of another tensor of the forward: its "
        "gradients are not the forward's",
    ),
    SlipKind(
        "foreign_condition",
        "warning",
        "Judge a sample by the condition that it was made by: D(G(z, c), c)",
        "is the condition that a sample is judged by, and it was made by another one: the "
        "generator learns to pass over its condition",
    ),
    SlipKind(
        "foreign_noise",
        "warning",
        "Hand it to what noises the samples, as q_sample(x0, t, noise), so that it can be found "
        "again in them",
        "is noise that the loss compares with, and that nothing else is made of: what the model is "
        "given was noised by another draw, or not at all",
    ),
    SlipKind(
        "uniform_noise",
        "warning",
        "Draw it by torch.randn_like: rand_like has a mean of a half, and no number below 0",
        "draws numbers from 0 to 1, which are multiplied by a deviation, as noise around 0 is",
    ),
    SlipKind(
        "rounded_times",
        "warning",
        "Take the first time off it, or a remainder of it, in whole numbers or float64, and make "
        "it float32 then",
        "makes single precision of seconds since 1970: it has 24 bits, so that such times are two "
        "minutes apart, and parts of a second hours",
    ),
    SlipKind(
        "refitted",
        "warning",
        "Fit it to the data of training alone, and call transform of those of evaluation",
        "fits an encoding or a scale anew to the data of evaluation: their numbers mean others "
        "than those that the model was trained with",
    ),
    SlipKind(
        "fitted_to_each",
        "warning",
        "Fit it once, to the data of training, and take the same for those of evaluation",
        "is fitted to the data of training and to those of evaluation, each alone: the same thing "
        "has other numbers in the two",
    ),
    SlipKind(
        "class_sampler",
        "warning",
        "Give it a weight of each sample: class_weights[labels]",
        "is given a weight of each class, and takes them for those of the first samples: no other "
        "sample is ever drawn",
    ),
    SlipKind(
        "changed_data",
        "warning",
        "Change a copy, row = self.x[i].clone() or .copy()",
        "changes the data themselves, of which the sample is a part: what is drawn adds up from "
        "epoch to epoch",
    ),
    SlipKind(
        "copied_generator",
        "warning",
        "Make it anew in each worker, by a worker_init_fn that takes get_worker_info().seed",
        "has workers that each begin with a copy of the data set's random generator, again at each "
        "epoch: samples come twice, and are the same in all epochs",
    ),
    SlipKind(
        "ends_as_padding",
        "warning",
        "Give padding a token of its own, or leave it out by the attention mask",
        "leaves padding out of the targets, which is the end of a text here: no target says where "
        "one ends",
    ),
    SlipKind(
        "missing_eval",
        "warning",
        "Call model.eval() before an evaluation, and model.train() behind it",
        "is of an evaluation, and nothing in this file puts the model into evaluation mode: "
        "dropout or BatchNorm in it acts as in training",
        _acts_otherwise_in_evaluation,
    ),
    SlipKind(
        "unrestored_average",
        "warning",
        "Put the model's own weights back behind the evaluation: what the steps in between have "
        "learnt is lost otherwise",
        "puts the average's weights into the model, which goes on training from there: nothing "
        "calls the method that puts its own back",
    ),
    SlipKind(
        "averaged_parameters",
        "warning",
        "Copy the buffers, too: for a, b in zip(average.buffers(), model.buffers()): a.copy_(b)",
        "moves an average of the model, and leaves its buffers as they were: BatchNorm's running "
        "statistics in it are those of the beginning, by which it is evaluated",
        _averages,
    ),
    SlipKind(
        "unused_offset",
        "warning",
        "Add it to the indices of each part, as edges + offset; else all parts of the batch point "
        "into the first",
        "is counted up from part to part of a batch, and nothing reads it",
    ),
    SlipKind(
        "unused_part",
        "warning",
        "Multiply by 1 - done where an episode ends, leave out what a mask hides, weigh by the "
        "weights; or name it _ if it is not needed",
        "is a part of the batch that says what counts of it, and that nothing reads",
    ),
    SlipKind(
        "unused_adaptation",
        "warning",
        "Take the loss of the task's other samples with them: functional_call(net, fast, (xq,))",
        "adapts weights to a task, and nothing reads them: the loss is of the weights before",
    ),
    SlipKind(
        "unused_split",
        "warning",
        "Take the loss of these alone, as loss(out[train_mask], y[train_mask]): else the model is "
        "trained on what it is evaluated by",
        "says which samples are to be trained on, and nothing reads it, as that of evaluation is",
    ),
    SlipKind(
        "whole_split",
        "warning",
        "Take the loss of the samples to be trained on, as loss(out[train_mask], y[train_mask])",
        "is of all samples, also of those that evaluation takes by a mask of its own",
    ),
    SlipKind(
        "noisy_teacher",
        "warning",
        "Call teacher.eval() before its student is trained: in training mode it drops out, and the "
        "averages of its norms go on to move",
        "asks a teacher that nothing puts into evaluation mode",
    ),
    SlipKind(
        "endless_target",
        "note",
        "Multiply what comes next by 1 - done, with the done of the same step; where episodes end "
        "by a limit of time alone it is right as it is",
        "counts what comes next behind the end of an episode, too",
    ),
    SlipKind(
        "parted_pairs",
        "warning",
        "Draw one order, and index both by it: x[order[i : i + n]], y[order[i : i + n]]",
        "takes rows in another order than that of the inputs or targets that belong to them",
    ),
    SlipKind(
        "turned_mixture",
        "warning",
        "Give each target the share of its own input: a * loss(z, y) + (1 - a) * loss(z, y[order]) "
        "of a * x + (1 - a) * x[order]",
        "mixes targets by the share of the other one: what their inputs were mixed by is turned",
    ),
    SlipKind(
        "taken_by_number",
        "warning",
        "Put it into the data set beside the inputs, TensorDataset(x, y, cached), or take it by "
        "the samples' own indices",
        "is taken by the number of the batch, and the loader shuffles: it belongs to other samples",
    ),
    SlipKind(
        "parted_flip",
        "warning",
        "Turn masks, boxes and points round with the image: masks.flip(-1), 1 - x of a box",
        "turns images round, and leaves the masks or boxes beside them as they are",
    ),
    SlipKind(
        "turned_grid",
        "warning",
        "Write the row before the column, as images have them: target[i, gy, gx]",
        "is written at the column before the row, and other cells are taken at the row before the "
        "column: targets lie elsewhere than what they are of",
    ),
    SlipKind(
        "drawn_apart",
        "warning",
        "Draw once for both: if random.random() < 0.5: image, mask = image.flip(-1), mask.flip(-1)",
        "draws for masks or boxes alone whether they are moved, and another draw does for their "
        "images: many are moved without the other",
    ),
    SlipKind(
        "leaked_target",
        "warning",
        "Take what comes behind the window: s[i + n] for s[i : i + n]",
        "is a target that lies within the window which the model is given: it learns to copy",
    ),
    SlipKind(
        "reversed_returns",
        "warning",
        "Call returns.reverse() behind the loop, or insert each at 0",
        "lists the sums of rewards from the last step to the first, and nothing turns the list "
        "round: they belong to other steps than those that they stand at",
    ),
    SlipKind(
        "turned_ratio",
        "warning",
        "Turn it round: exp(log_prob - old_log_prob)",
        "is the old policy's probability above the new one's: a step makes good actions less "
        "likely",
    ),
    SlipKind(
        "turned_preference",
        "warning",
        "Turn it round: what is chosen less what is rejected",
        "is what is rejected less what is chosen, and the loss makes it large",
    ),
    SlipKind(
        "turned_average",
        "warning",
        "Turn it round: average.lerp_(p, 0.001), or average.mul_(0.999).add_(p, alpha=0.001)",
        "makes the average of weights nearly the new ones: its shares are the wrong way round",
    ),
    SlipKind(
        "swapped_arguments",
        "warning",
        "Give them in the function's order, or by name",
        "is given arguments in another order than the function has them, as their names tell",
    ),
    SlipKind(
        "swapped_inputs",
        "warning",
        "Give them in the order of the model's forward, or by name",
        "gives the model two inputs in each other's place, as the names in its forward tell",
    ),
    SlipKind(
        "left_sorted",
        "warning",
        "Put the rows back: h[order.argsort()]; or call pack_padded_sequence with "
        "enforce_sorted=False, which does both",
        "sorts the rows by their lengths, and nothing puts them back: outputs belong to other "
        "samples than those that the loss compares them with",
    ),
    SlipKind(
        "foreign_lookup",
        "warning",
        "Give each embedding the indices of what it is named for",
        "is given the indices of another embedding, as their names tell",
    ),
    SlipKind(
        "turned_policy",
        "warning",
        "Put a minus before it: loss = -(log_prob * returns).mean()",
        "is made small, and so are the probabilities of actions with good returns",
    ),
    SlipKind(
        "turned_end",
        "warning",
        "Write gamma * (1 - done) * value",
        "counts what comes next where an episode ends, and nowhere else",
    ),
    SlipKind(
        "turned_entropy",
        "warning",
        "Subtract it: loss = policy_loss - coefficient * entropy",
        "is added to the loss, which makes the entropy of the policy small: it explores less "
        "and less",
    ),
    SlipKind(
        "drawn_again",
        "warning",
        "Draw once, action = distribution.sample(), and take log_prob(action)",
        "is the probability of an action that is drawn for it alone, and not of the one that "
        "was taken",
    ),
    SlipKind(
        "kept_graph",
        "note",
        "Add loss.item(), or loss.detach() where a number would wait for a GPU",
        "is added up, or kept in a list, with its graph: memory grows with each step",
    ),
    SlipKind(
        "adds_nothing",
        "warning",
        "Make it an nn.Parameter, if it is to be learnt, or register_buffer it and fill it: a "
        "plain tensor is not trained, not saved, and not moved with the model",
        "adds a tensor of zeros that is neither a parameter nor a buffer",
    ),
    SlipKind(
        "dropped_result",
        "warning",
        "It returns another tensor, and leaves the one that it takes as it is: write "
        "x = x.add(y), or x.add_(y)",
        "throws away what it returns",
    ),
    SlipKind(
        "dropout_in_evaluation",
        "warning",
        "Call it with training=self.training, or take nn.Dropout, which model.eval() turns off",
        "drops out in evaluation, too, as it is not told whether the model trains",
    ),
    SlipKind(
        "batch_as_places",
        "warning",
        "Take the entries of the places along the second axis, pe[: x.size(1)].transpose(0, "
        "1), as the batch is the first axis of what the model's layers take",
        "takes as many places as there are samples, and gives one to each sample: the batch is "
        "the first axis here",
        _has_the_batch_first,
    ),
    SlipKind(
        "torn_view",
        "warning",
        "A view keeps the order of the numbers, so that samples, tokens or heads are mixed: "
        "take x.transpose(0, 1) or permute to exchange axes",
        "views a tensor by its own sizes in another order, which mixes the numbers of its axes",
    ),
)
"""The most urgent first."""


def slips(evidence: Evidence) -> Iterator[Finding]:
    """The first slip of each kind in the source of the model's modules, and of what trains it."""
    every = [(name, slip) for name, known in evidence.model.slips.items() for slip in known]
    for kind in SLIP_KINDS:
        known = [(module, slip) for module, slip in every if slip.kind == kind.name]
        if known and evidence.series and kind.is_one(evidence):
            module, slip = known[0]
            text = f"{slip.place}: `{slip.code}` {kind.seen}{_more([s for _, s in known[1:]])}"
            series = next((s for s in evidence.series if s.module == module), evidence.series[0])
            yield kind.at(series, 0, text, module=module)


def _more(others: Sequence[Slip]) -> str:
    places = [slip.place for slip in others]
    return f"; and so {'do' if places[1:] else 'does'} {', '.join(places)}" if places else ""
