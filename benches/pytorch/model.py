"""Makes the detector that is measured: LineVul's shape at RoBERTa-base size, with random weights of a fixed seed.

    python model.py DIRECTORY

12 layers, 768 wide, 50,265 words, 514 positions; LineVul's head, its softmax inside the graph. What it says about code means
nothing, and it takes exactly the time and memory of a trained one. DIRECTORY becomes a model directory: model.onnx, config.json,
detector.toml, and the tokenizer of the built-in detector, whose special tokens are RoBERTa's. `weights()` makes the same weights
for PyTorch.
"""
import argparse
import json
import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEED = 20240601
MAXIMUM = 512
CONFIG = dict(vocab_size=50265, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
              max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2)


def weights(attention="eager"):
    """The PyTorch model; `attention` chooses its implementation, not its numbers."""
    import torch
    import transformers

    class Head(torch.nn.Module):
        """Dense on <s>, tanh, projection to two labels (LineVul)."""

        def __init__(self, hidden):
            super().__init__()
            self.dense = torch.nn.Linear(hidden, hidden)
            self.activation = torch.nn.Tanh()
            self.out_proj = torch.nn.Linear(hidden, 2)

        def forward(self, features):
            return self.out_proj(self.activation(self.dense(features[:, 0, :])))

    class LineVul(torch.nn.Module):
        def __init__(self):
            super().__init__()
            config = transformers.RobertaConfig(**CONFIG, attn_implementation=attention)
            config.use_cache = False
            self.encoder = transformers.RobertaModel(config, add_pooling_layer=False)
            self.classifier = Head(config.hidden_size)

        def logits(self, input_ids, attention_mask):
            return self.classifier(self.encoder(input_ids, attention_mask=attention_mask)[0])

        def forward(self, input_ids, attention_mask):
            return torch.softmax(self.logits(input_ids, attention_mask), dim=-1)

    torch.manual_seed(SEED)
    model = LineVul().eval()
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Wider than an untrained model's, so that attention and activations are not all but constant.
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * (0.5 if "embedding" in name else 0.04))
        model.classifier.out_proj.weight.mul_(4)
    return model


def make(directory, attention="eager"):
    import torch
    directory.mkdir(parents=True, exist_ok=True)
    model = weights(attention)
    ids = torch.tensor([[0, 100, 200, 300, 400, 500, 2], [0, 700, 800, 2, 1, 1, 1]])
    batch = {0: "batch", 1: "tokens"}
    with torch.no_grad():
        torch.onnx.export(model, (ids, ids.ne(1).long()), str(directory / "model.onnx"), opset_version=17, dynamo=False,
                          input_names=["input_ids", "attention_mask"], output_names=["probabilities"],
                          dynamic_axes={"input_ids": batch, "attention_mask": batch, "probabilities": {0: "batch"}})
    config = dict(CONFIG, model_type="roberta", id2label={"0": "benign", "1": "vulnerable"})
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (directory / "detector.toml").write_text('name = "random-roberta-base"\nlong = "window"\nmax_tokens = 512\n')
    shutil.copyfile(ROOT / "models/default/tokenizer.json", directory / "tokenizer.json")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--attention", choices=["eager", "sdpa"], default="eager", help="how attention is written in the exported graph")
    arguments = parser.parse_args()
    make(arguments.directory, arguments.attention)
