"""The other side of the comparison: the same detector in PyTorch, told what to measure on standard input.

    python torch_side.py MODEL_DIRECTORY THREADS [--internal-batch N]

The same commands as `linelens.rs`, one JSON object a line. Attention is the model's own (`output_attentions`), integrated
gradients are captum's LayerIntegratedGradients at the embedding block with 50 Gauss-Legendre steps, AttnLRP is LXT's
`lxt.efficient`. LXT has no patch for RoBERTa, so `patch_for_lxt` applies LXT's own rules where its patch for BERT does.
A process answers questions about one method only, since LXT changes classes in place.
"""
import argparse
import json
import pathlib
import sys
import time

import model as detector

PADDING = 1


class Side:
    def __init__(self, directory, threads, internal_batch):
        self.directory, self.threads, self.internal_batch = directory, threads, internal_batch
        self.model = self.tokenizer = self.integrated = None
        self.patched = False

    def open(self, command):
        import torch
        import transformers
        torch.set_num_threads(self.threads)
        self.model = detector.weights(command.get("attention", "eager"))
        self.tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(self.directory / "tokenizer.json"))
        return {}

    def forward(self, command):
        ids, mask = tensors(command["ids"])
        started = time.perf_counter()
        probability, received = self.attention(ids, mask)
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "probability": probability, "values": received[0].tolist()}

    def relevance(self, command):
        ids, mask = tensors(command["ids"])
        return self.timed_relevance(command["method"], ids, mask)

    def timed_relevance(self, method, ids, mask):
        compute = {"ig": self.integrated_gradients, "attnlrp": self.attnlrp, "attnlrp, weights too": self.attnlrp_of_everything}[method]
        if method.startswith("attnlrp") and not self.patched:
            patch_for_lxt(self.model)
            self.patched = True
        started = time.perf_counter()
        values = compute(ids, mask)
        return {"seconds": time.perf_counter() - started, "values": values.tolist()}

    def pipeline(self, command):
        """The authors' way: from text to line scores, everything padded to the model's maximum."""
        method, text = command["method"], command["text"]
        self.prepare(method)
        started = time.perf_counter()
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        code = encoded["input_ids"][:detector.MAXIMUM - 2]
        real = len(code) + 2
        ids, mask = tensors([0, *code, 2], detector.MAXIMUM)
        if method.startswith("attention"):
            probability, received = self.attention(ids, mask)
            values = received[0]
        else:
            import torch
            with torch.no_grad():
                probability = self.model(ids, mask)[0, 1].item()
            values = self.timed_relevance(method, ids, mask)["values"]
        lines = {}
        for value, (start, _) in zip(list(values)[1:real - 1], encoded["offset_mapping"]):
            line = text.count("\n", 0, start)
            lines[line] = lines.get(line, 0.0) + float(value)
        return {"seconds": time.perf_counter() - started, "probability": probability, "lines": len(lines)}

    def prepare(self, method):
        if method.startswith("attnlrp") and not self.patched:
            patch_for_lxt(self.model)
            self.patched = True

    def attention(self, ids, mask):
        """Probability, and attention received in every layer: summed over heads and queries."""
        import torch
        with torch.inference_mode():
            out = self.model.encoder(ids, attention_mask=mask, output_attentions=True)
            probability = torch.softmax(self.model.classifier(out[0]), dim=-1)[0, 1].item()
            return probability, [layer.sum(dim=(1, 2))[0] for layer in out.attentions]

    def integrated_gradients(self, ids, mask):
        import torch
        from captum.attr import LayerIntegratedGradients
        if self.integrated is None:
            self.integrated = LayerIntegratedGradients(lambda i, m: self.model(i, m)[:, 1], self.model.encoder.embeddings)
        baseline = torch.full_like(ids, PADDING)
        baseline[0, 0] = 0
        if ids.shape[1] == detector.MAXIMUM:
            baseline[0, -1] = 2
        found = self.integrated.attribute(ids, baselines=baseline, additional_forward_args=(mask,), n_steps=50,
                                          method="gausslegendre", internal_batch_size=self.internal_batch)
        return found.sum(-1)[0].detach()

    def attnlrp(self, ids, mask):
        self.model.requires_grad_(False)
        return self.gradient_times_input(ids, mask)

    def attnlrp_of_everything(self, ids, mask):
        """As written in LXT's introduction: nothing says that gradients of the weights are not wanted."""
        self.model.requires_grad_(True)
        self.model.zero_grad(set_to_none=True)
        return self.gradient_times_input(ids, mask)

    def gradient_times_input(self, ids, mask):
        words = self.model.encoder.embeddings.word_embeddings(ids).detach().requires_grad_()
        # RoBERTa's positions, which it derives from the ids where it is given ids.
        positions = mask.cumsum(1) * mask + PADDING
        hidden = self.model.encoder(inputs_embeds=words, attention_mask=mask, position_ids=positions)[0]
        logits = self.model.classifier(hidden)
        (logits[0, 1] - logits[0, 0]).backward()
        return (words.grad * words).sum(-1)[0].detach()


def patch_for_lxt(model):
    """LXT's rules, where its patched BERT has them: queries and keys, values, normalisation, activations."""
    import torch
    from lxt.efficient.patches import layer_norm_forward, non_linear_forward, patch_method
    from lxt.efficient.rules import divide_gradient
    from transformers.activations import GELUActivation
    patch_method(layer_norm_forward, torch.nn.LayerNorm)
    patch_method(non_linear_forward, GELUActivation, keep_original=True)
    patch_method(non_linear_forward, torch.nn.Tanh, keep_original=True)
    for layer in model.encoder.encoder.layer:
        attention = layer.attention.self
        for part, factor in ((attention.query, 4), (attention.key, 4), (attention.value, 2)):
            part.register_forward_hook(lambda _, __, output, factor=factor: divide_gradient(output, factor))


def tensors(ids, length=None):
    import torch
    padded = ids + [PADDING] * ((length or len(ids)) - len(ids))
    ids = torch.tensor([padded])
    return ids, ids.ne(PADDING).long()


def memory():
    """The largest and the present resident set, in bytes."""
    status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    return {"peak": int(status["VmHWM"].split()[0]) * 1024, "resident": int(status["VmRSS"].split()[0]) * 1024}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("threads", type=int)
    parser.add_argument("--internal-batch", type=int, default=16, help="captum's internal_batch_size")
    arguments = parser.parse_args()
    side = Side(arguments.directory, arguments.threads, arguments.internal_batch)
    for line in sys.stdin:
        command = json.loads(line)
        pathlib.Path("/proc/self/clear_refs").write_text("5")
        worked = time.process_time()
        answer = getattr(side, command["do"])(command)
        print(json.dumps({**answer, **memory(), "cpu": time.process_time() - worked}), flush=True)
