/* SPDX-License-Identifier: MIT */
/*
 * A line of the access log: logfmt, JSON, or a format of one's own. docs/relay-operation.md
 * describes each field.
 *
 * A format of one's own is text with the names of fields in braces, such as "{client} {cause}";
 * {{ and }} are braces. What clients and backends say cannot look like another field or another
 * line: in a text, quotes, backslashes, all that is not visible ASCII or a space, and the
 * character that follows the field in the format are written as \xHH, and that character is none of
 * those that this takes. A field that is not known is "-", and a text that is "-" is \x2d. No line
 * begins with # but those about dropped lines.
 */
#ifndef RELAY_LOG_LINE_HPP
#define RELAY_LOG_LINE_HPP

#include "wire/termination.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace relay
{

/* One connection. Empty texts and negative durations are unknown. */
struct access_entry {
	std::chrono::nanoseconds time{}; /* of its end, since 1970 */
	termination cause = termination::client_end;
	std::string_view listener; /* the route's name */
	std::string_view client;   /* its address, from the PROXY header if there was one */
	std::string_view peer;     /* the connection's own address if it differs */
	std::string_view backend;  /* the backend it was connected to, as configured */
	std::string_view endpoint; /* its address if the backend is a name; else empty */
	std::string_view sni;
	std::string_view tls;       /* the version, if the client's TLS ended here */
	std::string_view alpn;      /* the protocol agreed on then */
	std::string_view client_cn; /* the common name of the client's certificate */
	std::string_view id;        /* the id sent to the backend */
	std::string_view error;     /* what failed, in words */
	std::chrono::nanoseconds duration{-1};
	std::chrono::nanoseconds queue{-1}; /* the part spent waiting for a place */
	std::chrono::nanoseconds connect{-1};
	std::chrono::nanoseconds first_byte{-1};
	std::uint64_t to_backend = 0; /* bytes delivered */
	std::uint64_t to_client = 0;
	std::uint64_t to_backend_splice = 0; /* the part that splice moved */
	std::uint64_t to_client_splice = 0;
	/* UDP: how many datagrams were passed on, to the backend and to the client. */
	std::optional<std::pair<std::uint64_t, std::uint64_t>> datagrams{};
	unsigned tries = 0; /* backends tried; logged if more than one */
};

/* Cheap to copy. */
class log_format
{
public:
	enum class kind : unsigned char { logfmt, json, own };

	static const log_format logfmt;
	static const log_format json;

	log_format() = default;

	/* "logfmt", "json", or a format of one's own. If it is none of these, why says what is
	 * wrong and what was expected. */
	static std::optional<log_format> parse(std::string_view text, std::string &why);

	bool operator==(const log_format &other) const noexcept
	{
		return is_ == other.is_ && (is_ != kind::own || own_->text == other.own_->text);
	}

	kind is() const noexcept { return is_; }

	/* A field, and the text after it. The first piece has no field. */
	struct piece {
		std::optional<std::size_t> field{};
		std::string after{};
	};
	/* Only of one's own. */
	const std::vector<piece> &pieces() const noexcept { return own_->pieces; }

private:
	struct own_format {
		std::string text;
		std::vector<piece> pieces;
	};

	constexpr explicit log_format(kind is) : is_(is) {}

	kind is_ = kind::logfmt;
	std::shared_ptr<const own_format> own_{};
};

inline constexpr std::size_t log_line_most = 4096; /* PIPE_BUF */

/* The entry as a line, with its end. It has at most log_line_most bytes, because long texts are
 * cut. */
std::string to_log_line(const access_entry &entry, const log_format &format);

/* A line that says that n lines before it are missing. Between lines of one's own format it is one
 * of logfmt, after a # that marks it as none of them. */
std::string dropped_line(std::uint64_t n, const log_format &format);

} // namespace relay

#endif
