// A model description becomes a graph of plain operations.
#include <fmt/core.h>

#include "graph/graph.h"

namespace rbln {
namespace {

class Importer {
 public:
  Importer(const ModelDescription& model, int max_seq_len)
      : model_(model), constants_(model.Rotary(max_seq_len)) {}

  Graph Import() {
    graph_.num_heads = model_.num_heads;
    graph_.num_kv_heads = model_.num_kv_heads;
    graph_.head_dim = model_.head_dim;
    const int embedding =
        graph_.AddWeight("embedding", {"model.embed_tokens.weight"},
                         {model_.vocab_size}, model_.hidden_size);
    int x = Emit(
        {.kind = GraphOpKind::kEmbed, .name = "embed", .weight = embedding},
        "x", model_.hidden_size);
    const int frequencies = graph_.AddWeight("rotary.inverse_frequencies", {},
                                             {model_.head_dim / 2}, 0);
    graph_.weights[frequencies].constants = constants_.inverse_frequencies;
    rotary_ = Emit({.kind = GraphOpKind::kRotary,
                    .name = "rotary",
                    .weight = frequencies,
                    .scale = constants_.attention_factor},
                   "rotary", model_.head_dim);
    for (int layer = 0; layer < model_.num_layers; ++layer) {
      x = Layer(layer, x);
    }
    graph_.values.push_back(
        {"last", RowKind::Logits, model_.hidden_size, Format::Float32});
    const int last = static_cast<int>(graph_.values.size()) - 1;
    graph_.ops.push_back({.kind = GraphOpKind::kSelect,
                          .name = "select",
                          .inputs = {x},
                          .output = last});
    const int norm = Norm("final_norm", "model.norm.weight", last);
    graph_.values[norm].rows = RowKind::Logits;
    const int lm_head =
        model_.tie_word_embeddings
            ? embedding
            : graph_.AddWeight("lm_head", {"lm_head.weight"},
                               {model_.vocab_size}, model_.hidden_size);
    graph_.logits = Emit({.kind = GraphOpKind::kMatmul,
                          .name = "lm_head",
                          .inputs = {norm},
                          .weight = lm_head},
                         "logits", model_.vocab_size);
    graph_.values[graph_.logits].rows = RowKind::Logits;
    return std::move(graph_);
  }

 private:
  // Appends `op` with a new value as its output.
  int Emit(GraphOp op, const std::string& value, int columns) {
    op.output = graph_.AddValue(value, columns);
    graph_.ops.push_back(std::move(op));
    return graph_.ops.back().output;
  }

  int Norm(const std::string& name, const std::string& tensor, int x) {
    const int columns = graph_.values[x].columns;
    return Emit({.kind = GraphOpKind::kRmsNorm,
                 .name = name,
                 .inputs = {x},
                 .weight = graph_.AddWeight(name, {tensor}, {columns}, 0),
                 .epsilon = static_cast<float>(model_.rms_norm_eps)},
                name, columns);
  }

  // `tensor` without its ".weight" or ".bias".
  int Linear(const std::string& name, const std::string& tensor, int outputs,
             bool bias, int x) {
    GraphOp op{.kind = GraphOpKind::kMatmul, .name = name, .inputs = {x}};
    op.weight = graph_.AddWeight(name, {tensor + ".weight"}, {outputs},
                                 graph_.values[x].columns);
    if (bias) {
      op.bias =
          graph_.AddWeight(name + ".bias", {tensor + ".bias"}, {outputs}, 0);
    }
    return Emit(std::move(op), name, outputs);
  }

  // Norms the heads of q or k where the model does, and rotates them.
  int Rotate(const std::string& name, const std::string& norm_tensor, int x) {
    const int columns = graph_.values[x].columns;
    if (model_.qk_norm) {
      const int weight =
          graph_.AddWeight(name + "_norm", {norm_tensor}, {model_.head_dim}, 0);
      x = Emit({.kind = GraphOpKind::kHeadNorm,
                .name = name + "_norm",
                .inputs = {x},
                .weight = weight,
                .epsilon = static_cast<float>(model_.rms_norm_eps)},
               name + "_norm", columns);
    }
    return Emit({.kind = GraphOpKind::kRope,
                 .name = name + "_rope",
                 .inputs = {x, rotary_}},
                name + "_rope", columns);
  }

  int Layer(int layer, int x) {
    const std::string name = fmt::format("layers.{}.", layer);
    const std::string from = fmt::format("model.layers.{}.", layer);
    const int q_size = model_.num_heads * model_.head_dim;
    const int kv_size = model_.num_kv_heads * model_.head_dim;

    const int attn_in =
        Norm(name + "attn_norm", from + "input_layernorm.weight", x);
    const auto project = [&](const char* which, int outputs) {
      return Linear(name + which, from + "self_attn." + which + "_proj",
                    outputs, model_.qkv_bias, attn_in);
    };
    const int q = project("q", q_size);
    const int k = project("k", kv_size);
    const int v = project("v", kv_size);
    const int q_rope = Rotate(name + "q", from + "self_attn.q_norm.weight", q);
    const int k_rope = Rotate(name + "k", from + "self_attn.k_norm.weight", k);
    graph_.ops.push_back({.kind = GraphOpKind::kKvWrite,
                          .name = name + "kv_write",
                          .inputs = {k_rope, v},
                          .layer = layer});
    const int attended = Emit({.kind = GraphOpKind::kAttention,
                               .name = name + "attention",
                               .inputs = {q_rope},
                               .layer = layer,
                               .window = model_.sliding_window[layer]},
                              name + "attention", q_size);
    const int o = Linear(name + "o", from + "self_attn.o_proj",
                         model_.hidden_size, model_.o_bias, attended);
    x = Emit({.kind = GraphOpKind::kAdd,
              .name = name + "attn_add",
              .inputs = {x, o}},
             name + "x_attn", model_.hidden_size);

    const int mlp_in =
        Norm(name + "mlp_norm", from + "post_attention_layernorm.weight", x);
    const int gate = Linear(name + "gate", from + "mlp.gate_proj",
                            model_.intermediate_size, model_.mlp_bias, mlp_in);
    const int up = Linear(name + "up", from + "mlp.up_proj",
                          model_.intermediate_size, model_.mlp_bias, mlp_in);
    const int h = Emit({.kind = GraphOpKind::kSiluMul,
                        .name = name + "silu",
                        .inputs = {gate, up}},
                       name + "h", model_.intermediate_size);
    const int down = Linear(name + "down", from + "mlp.down_proj",
                            model_.hidden_size, model_.mlp_bias, h);
    return Emit({.kind = GraphOpKind::kAdd,
                 .name = name + "mlp_add",
                 .inputs = {x, down}},
                name + "x_mlp", model_.hidden_size);
  }

  const ModelDescription& model_;
  const RotaryConstants constants_;
  Graph graph_;
  int rotary_ = -1;
};

}  // namespace

Graph ImportModel(const ModelDescription& model, int max_seq_len) {
  return Importer(model, max_seq_len).Import();
}

}  // namespace rbln
