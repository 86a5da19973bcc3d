/* SPDX-License-Identifier: MIT */
#include "wire/tls_hello.hpp"

#include <algorithm>
#include <cstdint>

namespace relay
{
namespace
{

constexpr std::size_t record_header = 5;
constexpr std::size_t record_most = 1 << 14;
constexpr std::size_t message_header = 4;
constexpr std::size_t name_most = 253;
/* version, random, and the shortest session id, cipher suites and compression methods */
constexpr std::size_t message_least = 2 + 32 + 1 + 2 + 2 + 1 + 1;

enum : unsigned char {
	content_handshake = 22,
	handshake_client_hello = 1,
};

enum : unsigned {
	extension_server_name = 0,
	extension_alpn = 16,
};

unsigned char byte(std::string_view bytes, std::size_t at)
{
	return static_cast<unsigned char>(bytes[at]);
}

std::size_t number16(std::string_view bytes, std::size_t at)
{
	return static_cast<std::size_t>(byte(bytes, at)) << 8 | byte(bytes, at + 1);
}

/*
 * Takes fields from the front of the bytes. A field that is cut off makes the reader fail;
 * everything taken after that is empty. Callers check failed() at the end.
 */
class reader
{
public:
	explicit reader(std::string_view bytes) : rest_(bytes) {}

	std::string_view take(std::size_t n)
	{
		if (n > rest_.size()) {
			failed_ = true;
			rest_ = {};
			return {};
		}
		const auto taken = rest_.substr(0, n);
		rest_.remove_prefix(n);
		return taken;
	}

	/* A number in network order. */
	std::size_t number(std::size_t bytes)
	{
		std::size_t n = 0;
		for (const char c : take(bytes))
			n = n << 8 | static_cast<unsigned char>(c);
		return n;
	}

	/* A field that is preceded by its length, which has that many bytes. */
	std::string_view vector(std::size_t length_bytes) { return take(number(length_bytes)); }

	bool empty() const { return rest_.empty(); }
	bool failed() const { return failed_; }

private:
	std::string_view rest_;
	bool failed_ = false;
};

bool is_name_character(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Reads the name. Returns what is wrong with it; null if `into` has it. */
const char *read_name(std::string_view name, std::string &into)
{
	if (!name.empty() && name.back() == '.')
		name.remove_suffix(1);
	if (name.empty())
		return "TLS server name is empty";
	if (name.size() > name_most)
		return "TLS server name is too long";
	std::string lower(name);
	char previous = '.';
	for (char &c : lower) {
		if (c >= 'A' && c <= 'Z')
			c = static_cast<char>(c - 'A' + 'a');
		if (c == '.' ? previous == '.' : !is_name_character(c))
			return "TLS server name is malformed";
		previous = c;
	}
	if (previous == '.')
		return "TLS server name is malformed";
	into = std::move(lower);
	return nullptr;
}

const char *read_server_names(std::string_view extension, std::string &into)
{
	constexpr const char *malformed = "TLS server name extension is malformed";
	reader outer(extension);
	const auto list = outer.vector(2);
	if (outer.failed() || !outer.empty() || list.empty())
		return malformed;
	bool seen = false;
	for (reader entries(list); !entries.empty();) {
		const auto type = entries.number(1);
		const auto name = entries.vector(2);
		if (entries.failed())
			return malformed;
		if (type != 0)
			continue; /* not a host name; no other type is in use */
		if (seen)
			return "TLS server name is given twice";
		seen = true;
		if (const char *wrong = read_name(name, into))
			return wrong;
	}
	return nullptr;
}

const char *read_alpn(std::string_view extension, std::string &into)
{
	constexpr const char *malformed = "TLS protocol list (ALPN) is malformed";
	reader outer(extension);
	const auto list = outer.vector(2);
	if (outer.failed() || !outer.empty() || list.empty())
		return malformed;
	for (reader entries(list); !entries.empty();) {
		const auto protocol = entries.vector(1);
		if (entries.failed() || protocol.empty())
			return malformed;
	}
	into = list;
	return nullptr;
}

const char *read_extensions(std::string_view extensions, tls_hello &into)
{
	bool named = false;
	bool protocols = false;
	for (reader each(extensions); !each.empty();) {
		const auto type = each.number(2);
		const auto value = each.vector(2);
		if (each.failed())
			return "TLS extension is cut off";
		const char *wrong = nullptr;
		if (type == extension_server_name) {
			if (named)
				return "TLS server name extension is given twice";
			named = true;
			wrong = read_server_names(value, into.name);
		} else if (type == extension_alpn) {
			if (protocols)
				return "TLS protocol list (ALPN) is given twice";
			protocols = true;
			wrong = read_alpn(value, into.alpn);
		}
		if (wrong)
			return wrong;
	}
	return nullptr;
}

/* Reads the message, given without its header. Returns what is wrong with it, or null. */
const char *read_message(std::string_view message, tls_hello &into)
{
	constexpr const char *malformed = "TLS hello is malformed";
	reader fields(message);
	const auto version = fields.number(2);
	fields.take(32);
	const auto session = fields.vector(1);
	const auto ciphers = fields.vector(2);
	const auto compression = fields.vector(1);
	if (fields.failed() || version >> 8 != 3 || session.size() > 32 || ciphers.empty() ||
	    ciphers.size() % 2 != 0 || compression.empty())
		return malformed;
	/* Hellos without extensions end here. */
	if (fields.empty())
		return nullptr;
	const auto extensions = fields.vector(2);
	if (fields.failed() || !fields.empty())
		return malformed;
	return read_extensions(extensions, into);
}

/* What is wrong with the first bytes that have arrived; null if they may begin a hello. */
const char *wrong_beginning(std::string_view bytes, tls_hello &into)
{
	if (bytes.empty())
		return nullptr;
	/* An SSL 2.0 record: its length with the highest bit set, then the message type. Such a
	 * hello has no server name, even if it offers later versions. */
	if (byte(bytes, 0) & 0x80) {
		if (bytes.size() < 3)
			return nullptr;
		if (byte(bytes, 2) == handshake_client_hello) {
			into.is = tls_hello::other::ssl2;
			return "SSL 2.0 hello, which has no server name";
		}
	} else if (byte(bytes, 0) == content_handshake &&
		   (bytes.size() < 2 || byte(bytes, 1) == 3)) {
		return nullptr;
	}
	into.is = tls_hello::other::not_tls;
	return "not TLS";
}

/* What is wrong with the part of a record's header that has arrived; null if nothing. */
const char *wrong_record(std::string_view record)
{
	if (!record.empty() && byte(record, 0) != content_handshake)
		return "TLS hello is interrupted by another record";
	if (record.size() < record_header)
		return nullptr;
	const std::size_t size = number16(record, 3);
	if (byte(record, 1) != 3 || size == 0 || size > record_most)
		return "TLS record is malformed";
	return nullptr;
}

/* The size of the handshake message that begins with these bytes or, before that is known, of its
 * header. */
std::size_t message_size(std::string_view there)
{
	if (there.size() < message_header)
		return message_header;
	return message_header +
	       (static_cast<std::size_t>(byte(there, 1)) << 16 | number16(there, 2));
}

/* What is wrong with the part of the message's header that has arrived; null if nothing. */
const char *wrong_message(std::string_view there)
{
	if (!there.empty() && byte(there, 0) != handshake_client_hello)
		return "TLS handshake does not begin with a client's hello";
	if (there.size() >= message_header && message_size(there) < message_header + message_least)
		return "TLS hello is malformed";
	return nullptr;
}

} // namespace

parsed tls_hello_reader::read(std::string_view bytes, tls_hello &into)
{
	into = {};
	if (const char *wrong = wrong_beginning(bytes, into))
		return parsed::bad(wrong);
	const auto bad = [&into](const char *wrong, tls_hello::other is = tls_hello::other::none) {
		into = {};
		into.is = is;
		return parsed::bad(wrong);
	};

	for (;;) {
		looks_++;
		const auto record = bytes.substr(at_);
		/* Perhaps SSL 2.0: the third byte decides. */
		if (at_ == 0 && !record.empty() && (byte(record, 0) & 0x80))
			return parsed::more(3);
		if (const char *wrong = wrong_record(record))
			return bad(wrong);

		/* The least offset at which the hello can end: a record has at least a byte. */
		std::size_t end = at_ + record_header + 1;
		std::size_t record_end = end;
		const bool has_header = record.size() >= record_header;
		if (has_header) {
			const auto before = message_.size() - taken_;
			const std::size_t size = number16(record, 3);
			const auto content = record.substr(record_header, size);
			message_ += content.substr(taken_);
			taken_ = content.size();
			if (const char *wrong = wrong_message(message_))
				return bad(wrong);
			end = at_ + record_header + message_size(message_) - before;
			record_end = at_ + record_header + size;
		}
		if (end > most_)
			return bad("TLS hello is larger than allowed", tls_hello::other::too_large);
		if (!has_header)
			return parsed::more(end);
		if (end <= record_end && end <= bytes.size()) {
			const auto body = std::string_view(message_).substr(
				message_header, message_size(message_) - message_header);
			if (const char *wrong = read_message(body, into))
				return bad(wrong);
			return parsed::done(end);
		}
		if (record_end > bytes.size())
			return parsed::more(std::min(end, record_end));
		at_ = record_end;
		taken_ = 0;
	}
}

parsed read_tls_hello(std::string_view bytes, tls_hello &into, std::size_t most)
{
	return tls_hello_reader(most).read(bytes, into);
}

} // namespace relay
