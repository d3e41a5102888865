#include "sink/tenant_document.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sink/detail/json_fields.h"
#include "sink/detail/setting_reader.h"
#include "sink/detail/unit_reader.h"

namespace queen::sink {
namespace {

using detail::SettingReader;
using simdjson::dom::element;
using simdjson::dom::element_type;

constexpr std::string_view kSecretVariable = "QUEEN_S3_SECRET_KEY";
constexpr std::size_t kQuotedMax = 200;  // characters of a value or a name that a sentence repeats

std::string quoted(std::string text) {
  if (text.size() > kQuotedMax) text.resize(kQuotedMax);
  return to_valid_utf8(text);
}

std::string_view kind_of(const element& value) {
  switch (value.type()) {
    case element_type::NULL_VALUE:
      return "null";
    case element_type::BOOL:
      return "a boolean";
    case element_type::STRING:
      return "a string";
    case element_type::ARRAY:
      return "a list";
    case element_type::OBJECT:
      return "an object";
    default:
      return "a number";
  }
}

// A secret that is misspelt must not be stored in clear (rulings, S3 sink 12).
bool looks_secret(std::string_view field) {
  if (field == "accessKey" || field == "sseKmsKeyId") return false;
  const std::string name = lower_ascii(field);
  for (const char* word : {"secret", "password", "token", "credential", "key"}) {
    if (name.find(word) != std::string::npos) return true;
  }
  return false;
}

const SettingRow* row_of_field(std::string_view field) {
  if (field.empty()) return nullptr;
  for (const SettingRow& row : kSettingRows) {
    if (field == row.field) return &row;
  }
  return nullptr;
}

std::string field_names() {
  std::string out;
  for (const SettingRow& row : kSettingRows) {
    const bool listed = row.scope == SettingScope::queues && *row.field != '\0';
    if (listed) out += fmt::format("{}{}", out.empty() ? "" : ", ", row.field);
  }
  return out;
}

// The fields of a document by their JSON types; ranges and choices are the reader's.
class Document final : public detail::SettingSource {
 public:
  explicit Document(std::string secret_key) : secret_key_(std::move(secret_key)) {}

  std::optional<std::string> raw(const SettingRow& row) const override {
    if (row.name == kSecretVariable) return secret_key_;
    const auto found = texts_.find(row.field);
    if (found == texts_.end()) return std::nullopt;
    return found->second;
  }
  std::optional<std::vector<std::string>> list(const SettingRow& row) const override {
    if (std::string_view(row.name) != "QUEEN_S3_QUEUES") return std::nullopt;
    return queues_;
  }
  std::string name(const SettingRow& row) const override {
    return row.name == kSecretVariable ? "the secret key" : row.field;
  }

  // Nothing, or why `field` cannot be one of a tenant's sink.
  std::optional<std::string> take(std::string_view field, const element& value) {
    if (field == "secretKey") return "secretKey is not a field of the document: it is given beside it";
    const SettingRow* row = row_of_field(field);
    if (row == nullptr && looks_secret(field))
      return fmt::format(
          "{} is named like a secret, and the document holds none: it is not a field of a tenant's sink",
          quoted(std::string(field)));
    if (row == nullptr)
      return fmt::format("{} is not a field of a tenant's sink: use {}", quoted(std::string(field)),
                         field_names());
    if (row->scope == SettingScope::node)
      return fmt::format("{} is node-wide: {} sets it for every sink of a node", field, row->name);
    return take_value(*row, value);
  }

 private:
  std::optional<std::string> take_value(const SettingRow& row, const element& value) {
    if (value.is_null()) {
      texts_.erase(row.field);
      return std::nullopt;
    }
    if (std::string_view(row.field) == "queues") return take_queues(value);
    std::string_view text;
    const bool is_text = value.get(text) == simdjson::SUCCESS;
    if (is_text) texts_[row.field] = std::string(text);
    const std::string_view type = row.type;
    if (type == "int" && !is_text && !value.is_int64() && !value.is_uint64())
      return wrong(row, value, "a whole number");
    if (type == "bool" && !is_text && !value.is_bool()) return wrong(row, value, "a boolean");
    if (type != "int" && type != "bool" && !is_text) return wrong(row, value, "a string");
    if (!is_text) texts_[row.field] = simdjson::minify(value);
    return std::nullopt;
  }

  std::optional<std::string> take_queues(const element& value) {
    std::string_view text;
    if (value.get(text) == simdjson::SUCCESS) {
      texts_["queues"] = std::string(text);
      return std::nullopt;
    }
    simdjson::dom::array list;
    if (value.get(list) != simdjson::SUCCESS)
      return fmt::format("queues={} is not a list of queues", quoted(simdjson::minify(value)));
    queues_.emplace();
    for (const element item : list) {
      std::string_view name;
      if (item.get(name) != simdjson::SUCCESS)
        return fmt::format("queues holds {}, which is not a queue name", quoted(simdjson::minify(item)));
      queues_->emplace_back(name);
    }
    return std::nullopt;
  }

  // The value of a field that may hold a key is not repeated.
  static std::string wrong(const SettingRow& row, const element& value, std::string_view wanted) {
    if (looks_secret(row.name) || std::string_view(row.field) == "accessKey")
      return fmt::format("{} is {}, which is not {}", row.field, kind_of(value), wanted);
    return fmt::format("{}={} is not {}", row.field, quoted(simdjson::minify(value)), wanted);
  }

  std::string secret_key_;
  std::map<std::string, std::string, std::less<>> texts_;
  std::optional<std::vector<std::string>> queues_;
};

Error refused(std::string sentence) {
  return Error{Errc::invalid, std::move(sentence)};
}

}  // namespace

Result<UnitSettings> read_tenant_document(TenantDocument document) {
  if (trim(document.tenant).empty()) return refused("the tenant is empty");
  simdjson::dom::parser parser;
  auto root = detail::parse_json(parser, document.config, "the document");
  if (!root) return refused(root.error().what);
  simdjson::dom::object fields;
  if (root->get(fields) != simdjson::SUCCESS)
    return refused(fmt::format("the document is {}, not an object", kind_of(*root)));
  Document source(std::move(document.secret_key));
  for (const auto& field : fields) {
    if (auto why = source.take(field.key, field.value)) return refused(std::move(*why));
  }
  SettingReader reader(source);
  UnitSettings unit = detail::read_unit(reader);
  if (reader.refusal()) return refused(*reader.refusal());
  return unit;
}

Status check_tenant_document(std::string_view tenant, std::string_view config) {
  auto read = read_tenant_document({.tenant = tenant, .config = config, .secret_key = "unknown yet"});
  if (!read) return std::move(read).error();
  return {};
}

}  // namespace queen::sink
