#include "text/chat_template.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "test_util.h"

namespace rbln {
namespace {

constexpr int64_t kNow = 1721995200;  // 2024-07-26 12:00 UTC

std::vector<OrderedJson> ReadLines(const std::string& path) {
  std::vector<OrderedJson> rows;
  std::istringstream in(ReadTestFile(path));
  for (std::string line; std::getline(in, line);) {
    rows.push_back(OrderedJson::parse(line));
  }
  return rows;
}

// strftime_now shows local time; the goldens were made in UTC.
void UseUtc() {
  setenv("TZ", "UTC0", 1);
  tzset();
}

std::string Render(std::string_view source,
                   const OrderedJson& context = OrderedJson::object(),
                   const ChatTemplate::Limits& limits = {}) {
  return ChatTemplate::Parse(source, "t", ErrorKind::kUsage)
      ->Render(context, kNow, limits);
}

std::string ErrorOf(std::string_view source,
                    const OrderedJson& context = OrderedJson::object(),
                    const ChatTemplate::Limits& limits = {}) {
  try {
    return "rendered: " + Render(source, context, limits);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST_CASE("templates of each construct render as jinja2 renders them") {
  UseUtc();
  const auto rows =
      ReadLines(std::string(RBLN_TEST_DATA) + "/text/templates/golden.jsonl");
  REQUIRE(rows.size() > 500);
  const OrderedJson& context = rows[0]["context"];
  for (size_t i = 1; i < rows.size(); ++i) {
    const auto source = rows[i]["template"].get<std::string>();
    CAPTURE(source);
    if (rows[i].contains("error")) {
      CHECK_THROWS_AS(Render(source, context), Error);
    } else {
      std::string text;
      CHECK_NOTHROW(text = Render(source, context));
      CHECK(text == rows[i]["text"].get<std::string>());
    }
  }
}

TEST_CASE("templates as shipped with models render as jinja2 renders them") {
  const auto golden = SharedData("chat_templates/golden.jsonl");
  if (!golden.has_value()) {
    MESSAGE("skipped: no shared data (set RBLN_SHARED_DATA)");
    return;
  }
  UseUtc();
  for (const OrderedJson& row : ReadLines(*golden)) {
    const auto name = row["template"].get<std::string>();
    CAPTURE(name);
    CAPTURE(row["case"]);
    OrderedJson context = row;
    for (const char* key : {"template", "case", "text", "error"}) {
      context.erase(key);
    }
    const auto parsed =
        ChatTemplate::Parse(ReadTestFile(*SharedData("chat_templates/" + name)),
                            name, ErrorKind::kUsage);
    if (row.contains("text")) {
      std::string text;
      CHECK_NOTHROW(text = parsed->Render(context, kNow));
      CHECK(text == row["text"].get<std::string>());
      continue;
    }
    try {
      parsed->Render(context, kNow);
      FAIL_CHECK("rendered what jinja2 refuses");
    } catch (const Error& error) {
      const std::string message = error.what();
      if (row["error"].is_string()) {
        const auto wanted = row["error"].get<std::string>();
        CHECK_MESSAGE(message.find(wanted) != std::string::npos, message);
      }
    }
  }
}

TEST_CASE("errors name the template, the line and what is wrong") {
  CHECK(ErrorOf("a\n{{ x.y }}") == "t: line 2: 'x' is undefined");
  CHECK(ErrorOf("{{ m.x.y }}", {{"m", OrderedJson::object()}}) ==
        "t: line 1: 'dict object' has no attribute 'x'");
  CHECK(ErrorOf("\n\n{{ raise_exception('Only users!') }}") ==
        "t: line 3: Only users!");
  CHECK(ErrorOf("{% macro m() %}\n{{ 1 + 'a' }}{% endmacro %}\n{{ m() }}") ==
        "t: line 2: unsupported operand types for +: 'int' and 'str'");
  CHECK(ErrorOf("{{ [].append(1) }}") ==
        "t: line 1: access to attribute 'append' of 'list' object is unsafe");
  CHECK(ErrorOf("{{ x | nofilter }}") ==
        "t: line 1: no filter named "
        "'nofilter'");
  CHECK(ErrorOf("{% include 'x' %}") ==
        "t: line 1: 'include' is not supported: a chat template is one file");
  CHECK(ErrorOf("{% for x in y %}\n{{ x }}") ==
        "t: line 2: the template ends, and 'endfor' or 'else' is missing");
  CHECK(ErrorOf("{% frob %}") == "t: line 1: unknown tag 'frob'");
  CHECK(ErrorOf("{{ 9223372036854775807 + 1 }}") ==
        "t: line 1: the result is an integer beyond 64 bits");
  CHECK(ErrorOf("{{ [1] | random }}") ==
        "t: line 1: the filter 'random' is not supported: equal prompts must "
        "render alike");
}

TEST_CASE("templates that would not end end in an error") {
  const auto starts = [](const std::string& text, std::string_view with) {
    CHECK_MESSAGE(text.starts_with(with), text);
  };
  starts(ErrorOf("{% for a in range(100000) %}{% for b in range(100000) %}"
                 "{% endfor %}{% endfor %}"),
         "t: line 1: the template runs for too long");
  starts(ErrorOf("{{ range(10**12) }}"), "t: line 1: range too big");
  starts(ErrorOf("{{ 'a' * 10**15 }}"),
         "t: line 1: the template makes more than");
  starts(ErrorOf("{{ [1] * 10**15 }}"), "t: line 1: the template runs");
  starts(ErrorOf("{{ 'a'.center(10**15) }}"), "t: line 1: the template makes");
  starts(ErrorOf("{% set ns = namespace(s='x' * 1000) %}"
                 "{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}"
                 "{% endfor %}"),
         "t: line 1: the template makes more than");
  starts(ErrorOf("{% set ns = namespace(s=[]) %}{% for i in range(999) %}"
                 "{% set ns.s = ns.s + ['x' * 10**6] %}{% endfor %}"),
         "t: line 1: the template needs too much memory");
  starts(ErrorOf("{% set ns = namespace(s=[]) %}{% for i in range(9999) %}"
                 "{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}"),
         "t: line 1: values nested more than");
  starts(ErrorOf("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
         "t: line 1: macro 'm': calls nested more than 100 deep");
  starts(ErrorOf("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
         "t: line 1: a recursive loop nests more than 100 deep");
  starts(ErrorOf("{% set ns = namespace(g=[1]) %}{% for i in range(9999) %}"
                 "{% set ns.g = ns.g | map('abs') %}{% endfor %}"
                 "{{ ns.g | list }}"),
         "t: line 1: values nested more than");

  std::string deep = "{{ ";
  for (int i = 0; i < 100000; ++i) deep += "(";
  starts(ErrorOf(deep), "t: line 1: nested more than 150 deep");
  std::string chain = "{{ 1";
  for (int i = 0; i < 100000; ++i) chain += "+1";
  starts(ErrorOf(chain + " }}"), "t: line 1: expressions and calls nested");
  std::string blocks;
  for (int i = 0; i < 100000; ++i) blocks += "{% if x %}";
  starts(ErrorOf(blocks), "t: line 1: nested more than 150 deep");
}

TEST_CASE("values that hold themselves are let go") {
  // Leaks show under the address sanitizer.
  CHECK(Render("{% set ns = namespace() %}{% set ns.a = [ns] %}x") == "x");
  CHECK(Render("{% set ns = namespace() %}{% for i in [1] %}"
               "{% set ns.l = [loop, loop.changed(loop)] %}{% endfor %}x") ==
        "x");
  CHECK(Render("{% macro m() %}{% endmacro %}{% set ns = namespace(m=m) %}"
               "{{ ns.m() }}x") == "x");
}

TEST_CASE("many threads render one template") {
  const auto parsed = ChatTemplate::Parse(
      "{% for m in messages %}{{ m.role ~ [1, 'a'] }}{% endfor %}", "t",
      ErrorKind::kUsage);
  const OrderedJson context = {{"messages", {{{"role", "user"}}}}};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 500; ++k) {
        if (parsed->Render(context) != "user[1, 'a']") std::abort();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("a checkpoint's template is found where it may lie") {
  const auto load = [](const std::string& directory, bool with_tools) {
    const auto found =
        ChatTemplate::Load(directory, with_tools, ErrorKind::kUsage);
    return found ? found->Render(OrderedJson::object()) : "none";
  };
  const TempDir none;
  CHECK(load(none.path(), false) == "none");
  WriteTestFile(none / "tokenizer_config.json", R"({"a": 1})");
  CHECK(load(none.path(), false) == "none");
  WriteTestFile(none / "tokenizer_config.json", R"({"chat_template": null})");
  CHECK(load(none.path(), false) == "none");

  const TempDir text;
  WriteTestFile(text / "tokenizer_config.json", R"({"chat_template": "T"})");
  CHECK(load(text.path(), false) == "T");
  WriteTestFile(text / "chat_template.jinja", "J");
  CHECK(load(text.path(), false) == "J");

  const TempDir named;
  WriteTestFile(named / "tokenizer_config.json",
                R"({"chat_template": [{"name": "default", "template": "D"},
                    {"name": "tool_use", "template": "U"}]})");
  CHECK(load(named.path(), false) == "D");
  CHECK(load(named.path(), true) == "U");
  WriteTestFile(named / "tokenizer_config.json",
                R"({"chat_template": [{"name": "default", "template": "D"}]})");
  CHECK(load(named.path(), true) == "D");
}

TEST_CASE("a chat_template that is none says what was expected") {
  const TempDir dir;
  const auto error = [&](std::string_view config) -> std::string {
    WriteTestFile(dir / "tokenizer_config.json", config);
    try {
      ChatTemplate::Load(dir.path(), false, ErrorKind::kModel);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::kModel);
      return std::string(e.what()).substr(dir.path().size() + 1);
    }
    return "loaded";
  };
  CHECK(error(R"({"chat_template": 5})") ==
        "tokenizer_config.json: chat_template: expected a string or a list of "
        "named templates, found number");
  CHECK(error(R"({"chat_template": [{"name": "x"}]})") ==
        "tokenizer_config.json: chat_template: expected a string or a list of "
        "named templates, found an entry without the strings 'name' and "
        "'template'");
  CHECK(error(R"({"chat_template": [{"name": "x", "template": ""}]})") ==
        "tokenizer_config.json: chat_template: expected a string or a list of "
        "named templates, found no template named 'default'");
  CHECK(error(R"({"chat_template": "{% if %}"})") ==
        "tokenizer_config.json: chat_template: line 1: expected an "
        "expression, found '%}'");
}

}  // namespace
}  // namespace rbln
