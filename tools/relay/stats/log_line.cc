/* SPDX-License-Identifier: MIT */
#include "stats/log_line.hpp"

#include "base/histogram.hpp"
#include "base/text.hpp"

#include <sennit/sennit.hpp>

#include <algorithm>
#include <array>
#include <iterator>

namespace relay
{

const log_format log_format::logfmt{log_format::kind::logfmt};
const log_format log_format::json{log_format::kind::json};

namespace
{

using namespace std::chrono_literals;

/* The characters of each kind of value, and of "-" for one that is not known. None of these can end
 * a field in a format of one's own. */
constexpr std::string_view number_characters = "0123456789.-";
constexpr std::string_view time_characters = "0123456789TZ:.-";
constexpr std::string_view cause_characters =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-";

/* The fields, in their order in a line. is_text: others can choose the value, or a part of it. */
struct log_field {
	std::string_view name;
	bool is_text = false;
	/* What the value can have; of a text, all but the character that ends it. */
	std::string_view characters = number_characters;
};
constexpr log_field log_fields[] = {
	{"time", false, time_characters},
	{"cause", false, cause_characters},
	{"listener", true},
	{"client", true},
	{"peer", true},
	{"backend", true},
	{"endpoint", true},
	{"sni", true},
	{"tls", true},
	{"alpn", true},
	{"client_cn", true},
	{"id", true},
	{"duration_ms"},
	{"queue_ms"},
	{"connect_ms"},
	{"first_byte_ms"},
	{"to_backend"},
	{"to_client"},
	{"to_backend_splice"},
	{"to_client_splice"},
	{"datagrams_to_backend"},
	{"datagrams_to_client"},
	{"tries"},
	{"error", true},
};

/*
 * Longer texts are cut. Host names have 255 bytes at most, and everything else is shorter. Escaping
 * can make a text six times as long. If one text consists of such bytes, the six texts and the rest
 * still stay below log_line_most...
 */
constexpr std::size_t text_most = 255;
/* ...but not if all six do, so an escaped text is cut to this size, too. */
constexpr std::size_t escaped_most = 512;

/* A format of one's own that is larger is a mistake. Both leave room for the values in a line. */
constexpr std::size_t own_most = 1024;
constexpr std::size_t own_fields_most = 64;

class line
{
public:
	explicit line(log_format::kind format) : format_(format)
	{
		if (format_ == log_format::kind::json)
			out_ += '{';
	}

	void text(std::string_view key, std::string_view value)
	{
		if (value.empty())
			return;
		std::string escaped;
		for (auto most = text_most;; most /= 2) {
			escaped.clear();
			append(escaped, value.substr(0, most));
			if (escaped.size() <= escaped_most)
				break;
		}
		name(key);
		out_ += escaped;
	}
	void number(std::string_view key, std::uint64_t value)
	{
		name(key);
		out_ += std::to_string(value);
	}
	/* Written in milliseconds. */
	void duration(std::string_view key, std::chrono::nanoseconds value)
	{
		if (value < 0ns)
			return;
		name(key);
		append_decimal(out_, histogram_counts::microseconds(value), 3);
	}

	std::string finish()
	{
		out_ += format_ == log_format::kind::json ? "}\n" : "\n";
		return std::move(out_);
	}

private:
	void append(std::string &to, std::string_view value) const
	{
		if (format_ == log_format::kind::json)
			append_json(to, value);
		else
			append_logfmt(to, value);
	}
	void name(std::string_view key)
	{
		if (format_ == log_format::kind::json) {
			if (out_.size() > 1)
				out_ += ',';
			(((out_ += '"') += key) += '"') += ':';
		} else {
			if (!out_.empty())
				out_ += ' ';
			(out_ += key) += '=';
		}
	}

	const log_format::kind format_;
	std::string out_;
};

/* The number of a field. */
std::optional<std::size_t> field_called(std::string_view name) noexcept
{
	const auto *const found = std::ranges::find(log_fields, name, &log_field::name);
	return found == std::end(log_fields)
		       ? std::nullopt
		       : std::optional(static_cast<std::size_t>(found - std::begin(log_fields)));
}

/* The values, for a format of one's own. One that is not known is empty. */
class line_values
{
public:
	void text(std::string_view key, std::string_view value)
	{
		set(key, std::string(value.substr(0, text_most)));
	}
	void number(std::string_view key, std::uint64_t value) { set(key, std::to_string(value)); }
	void duration(std::string_view key, std::chrono::nanoseconds value)
	{
		std::string written;
		if (value >= 0ns)
			append_decimal(written, histogram_counts::microseconds(value), 3);
		set(key, std::move(written));
	}

	const std::string &at(std::size_t field) const noexcept { return values_[field]; }

private:
	void set(std::string_view key, std::string value)
	{
		if (const auto field = field_called(key))
			values_[*field] = std::move(value);
	}

	std::array<std::string, std::size(log_fields)> values_;
};

template <class Line>
void write_fields(const access_entry &entry, Line &to)
{
	to.text("time", to_time(entry.time));
	to.text("cause", to_string(entry.cause));
	to.text("listener", entry.listener);
	to.text("client", entry.client);
	to.text("peer", entry.peer);
	to.text("backend", entry.backend);
	to.text("endpoint", entry.endpoint);
	to.text("sni", entry.sni);
	to.text("tls", entry.tls);
	to.text("alpn", entry.alpn);
	to.text("client_cn", entry.client_cn);
	to.text("id", entry.id);
	to.duration("duration_ms", entry.duration);
	to.duration("queue_ms", entry.queue);
	to.duration("connect_ms", entry.connect);
	to.duration("first_byte_ms", entry.first_byte);
	to.number("to_backend", entry.to_backend);
	to.number("to_client", entry.to_client);
	to.number("to_backend_splice", entry.to_backend_splice);
	to.number("to_client_splice", entry.to_client_splice);
	if (entry.datagrams) {
		to.number("datagrams_to_backend", entry.datagrams->first);
		to.number("datagrams_to_client", entry.datagrams->second);
	}
	if (entry.tries > 1)
		to.number("tries", entry.tries);
	to.text("error", entry.error);
}

/* Appends a text; stop: the character after it, which ends it; 0 at the end of the line. A text
 * that is "-" would look like one that is not known, and a line that begins with # like one about
 * dropped lines. */
void append_escaped(std::string &out, std::string_view value, char stop)
{
	constexpr std::string_view digits = "0123456789abcdef";
	const bool is_dash = value == "-";
	for (const char c : value) {
		const auto byte = static_cast<unsigned char>(c);
		if (byte < ' ' || byte > '~' || c == '"' || c == '\\' || c == stop || is_dash ||
		    (c == '#' && out.empty())) {
			out += "\\x";
			out += digits[byte >> 4];
			out += digits[byte & 15];
		} else {
			out += c;
		}
	}
}

void append_value(std::string &out, std::size_t field, std::string_view value,
		  std::string_view after)
{
	if (value.empty())
		out += '-';
	else if (log_fields[field].is_text)
		append_escaped(out, value, after.empty() ? '\0' : after.front());
	else
		out += value;
}

std::string to_own_line(const access_entry &entry, const std::vector<log_format::piece> &pieces)
{
	line_values values;
	write_fields(entry, values);
	/* "tries" is left out elsewhere if it says nothing, but here it has its place. */
	values.number("tries", entry.tries);
	std::string out;
	for (auto most = text_most;; most /= 2) {
		out.clear();
		for (const auto &each : pieces) {
			if (each.field) {
				const bool is_text = log_fields[*each.field].is_text;
				const std::string_view value = values.at(*each.field);
				append_value(out, *each.field,
					     is_text ? value.substr(0, most) : value, each.after);
			}
			out += each.after;
		}
		out += '\n';
		if (out.size() <= log_line_most)
			return out;
	}
}

bool continues_character(char c) noexcept
{
	return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
}

/* Parses a format of one's own. */
class format_parser
{
public:
	format_parser(std::string_view text, std::vector<log_format::piece> &into)
	    : text_(text), pieces_(into)
	{
	}

	/* Returns what is wrong; empty: nothing. */
	std::string parse()
	{
		if (text_.starts_with('#'))
			return "begins with a #, as the lines about dropped lines do; expected "
			       "another character";
		pieces_.emplace_back();
		while (at_ < text_.size()) {
			auto problem = is_next("{{") || is_next("}}") ? literal(2)
				       : is_next("{")                 ? field()
								      : literal(1);
			if (!problem.empty())
				return problem;
		}
		if (pieces_.size() == 1)
			return "is neither \"logfmt\" nor \"json\" and has no fields; expected "
			       "one of these, or a text with fields, such as \"{time} {client} "
			       "{cause}\"";
		if (pieces_.size() > own_fields_most + 1)
			return "has too many fields; expected at most " +
			       std::to_string(own_fields_most);
		return {};
	}

private:
	bool is_next(std::string_view part) const { return text_.substr(at_).starts_with(part); }

	/* What is wrong, and where. */
	std::string wrong(const std::string &what, const std::string &expected) const
	{
		const auto before = text_.substr(0, at_);
		const auto rest = std::ranges::count_if(before, continues_character);
		const auto place = before.size() - static_cast<std::size_t>(rest) + 1;
		return "has " + what + " at character " + std::to_string(place) + "; expected " +
		       expected;
	}

	/* Takes a character that is itself, which is written with this many bytes. */
	std::string literal(std::size_t size)
	{
		const char c = text_[at_];
		const auto byte = static_cast<unsigned char>(c);
		if (c == '}' && size == 1)
			return wrong("a } without a { before it", "}} for the character itself");
		if ((byte < ' ' && c != '\t') || byte == 0x7f)
			return wrong("a control character",
				     "a line of visible characters, spaces and tabs");
		auto &last = pieces_.back();
		if (last.field && last.after.empty() && !can_end(*last.field, c))
			return wrong(std::string("\"") + c + "\" directly after a field",
				     "a character that no value has, or only as \\xHH");
		last.after += c;
		at_ += size;
		return {};
	}

	/* Whether a reader who goes by this character finds the end of the field: no value has it,
	 * and it is not a part of \xHH, nor of what stands for an unknown value. */
	static bool can_end(std::size_t field, char c)
	{
		const bool is_word =
			(c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
		if (c == '-' || c == '\\')
			return false;
		const auto &each = log_fields[field];
		return each.is_text ? !is_word : each.characters.find(c) == each.characters.npos;
	}

	std::string field()
	{
		const auto end = text_.find('}', at_);
		if (end == text_.npos)
			return wrong("a { without a } after it", "{{ for the character itself");
		const auto field = field_called(text_.substr(at_ + 1, end - at_ - 1));
		if (!field) {
			std::string all;
			for (const auto &each : log_fields)
				(all += all.empty() ? "" : ", ") += each.name;
			return wrong("a { without the name of a field after it",
				     "{{ for the character itself, or one of " + all);
		}
		if (pieces_.back().field && pieces_.back().after.empty())
			return wrong("nothing between two fields",
				     "a character that ends the first one");
		pieces_.push_back({field, {}});
		at_ = end + 1;
		return {};
	}

	const std::string_view text_;
	std::size_t at_ = 0;
	std::vector<log_format::piece> &pieces_;
};

} // namespace

std::optional<log_format> log_format::parse(std::string_view text, std::string &why)
{
	if (text == "logfmt")
		return logfmt;
	if (text == "json")
		return json;
	if (text.size() > own_most) {
		why = "is too long; expected at most " + std::to_string(own_most) + " bytes";
		return std::nullopt;
	}
	own_format parsed{std::string(text), {}};
	why = format_parser(text, parsed.pieces).parse();
	if (!why.empty())
		return std::nullopt;
	log_format made(kind::own);
	made.own_ = std::make_shared<const own_format>(std::move(parsed));
	return made;
}

std::string to_log_line(const access_entry &entry, const log_format &format)
{
	if (format.is() == log_format::kind::own)
		return to_own_line(entry, format.pieces());
	line made(format.is());
	write_fields(entry, made);
	return made.finish();
}

std::string dropped_line(std::uint64_t n, const log_format &format)
{
	const bool is_own = format.is() == log_format::kind::own;
	line made(is_own ? log_format::kind::logfmt : format.is());
	made.text("time", to_time(std::chrono::nanoseconds(sn_walltime())));
	made.text("event", "lines_dropped");
	made.number("lines", n);
	return (is_own ? "# " : "") + made.finish();
}

} // namespace relay
