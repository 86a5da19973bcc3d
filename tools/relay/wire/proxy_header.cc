/* SPDX-License-Identifier: MIT */
#include "wire/proxy_header.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <cstring>
#include <optional>
#include <sys/socket.h>

namespace relay
{
namespace
{

using namespace std::string_view_literals;

constexpr auto v1_signature = "PROXY "sv;
constexpr auto v2_signature = "\r\n\r\n\0\r\nQUIT\n"sv;
constexpr std::size_t v2_fixed = 16;
/* "PROXY UNKNOWN\r\n" */
constexpr std::size_t v1_least = 15;
constexpr std::size_t unix_path_size = 108;

/* Values of version 2's fixed part and its records (TLV). */
enum : unsigned char {
	command_local = 0x20,
	command_proxy = 0x21,
	family_unspec = 0,
	family_ipv4 = 1,
	family_ipv6 = 2,
	family_unix = 3,
	transport_unspec = 0,
	transport_stream = 1,
	transport_datagram = 2,
	record_alpn = 0x01,
	record_authority = 0x02,
	record_checksum = 0x03,
	record_padding = 0x04,
	record_unique_id = 0x05,
	record_tls = 0x20,
	record_tls_version = 0x21,
	record_tls_common_name = 0x22,
	record_tls_cipher = 0x23,
	record_tls_certificate = 0x28,
	tls_is_used = 0x01,
	tls_certificate_now = 0x02,
	tls_certificate_of_session = 0x04,
};

constexpr std::size_t name_most = 255;
constexpr std::size_t unique_id_most = 128;
constexpr std::size_t record_fixed = 3; /* the type and the length */

unsigned char byte(std::string_view bytes, std::size_t at)
{
	return static_cast<unsigned char>(bytes[at]);
}

std::uint16_t number16(std::string_view bytes, std::size_t at)
{
	return static_cast<std::uint16_t>(byte(bytes, at) << 8 | byte(bytes, at + 1));
}

/* Whether the bytes that have arrived can be the beginning of the signature. */
bool may_begin(std::string_view bytes, std::string_view signature)
{
	const auto n = std::min(bytes.size(), signature.size());
	return bytes.substr(0, n) == signature.substr(0, n);
}

/* ---- version 1 --------------------------------------------------------------------------- */

/* Removes the next word and the space before it; there must be exactly one space. */
std::optional<std::string_view> next_word(std::string_view &line)
{
	if (line.empty() || line.front() != ' ')
		return {};
	line.remove_prefix(1);
	const auto word = line.substr(0, line.find(' '));
	if (word.empty())
		return {};
	line.remove_prefix(word.size());
	return word;
}

bool read_ip(std::string_view text, int family, proxy_end &end)
{
	char copy[INET6_ADDRSTRLEN] = {};
	if (text.size() >= sizeof copy || text.find('\0') != text.npos)
		return false;
	text.copy(copy, text.size());
	return inet_pton(family, copy, end.ip.data()) == 1;
}

bool read_port(std::string_view text, proxy_end &end)
{
	if (text.size() > 5 || (text.size() > 1 && text.front() == '0'))
		return false;
	const auto [stop, error] =
		std::from_chars(text.data(), text.data() + text.size(), end.port);
	return error == std::errc() && stop == text.data() + text.size();
}

/* Reads a line of version 1, given without its end. */
parsed read_v1_line(std::string_view line, std::size_t size, proxy_header &into)
{
	line.remove_prefix(v1_signature.size() - 1);
	const auto protocol = next_word(line);
	if (!protocol)
		return parsed::bad("PROXY line without a protocol");
	if (*protocol == "UNKNOWN")
		return parsed::done(size); /* the rest of the line is ignored */

	int family = AF_UNSPEC;
	if (*protocol == "TCP4") {
		family = AF_INET;
		into.of = proxy_header::family::ipv4;
	} else if (*protocol == "TCP6") {
		family = AF_INET6;
		into.of = proxy_header::family::ipv6;
	} else {
		return parsed::bad("PROXY line's protocol is none of TCP4, TCP6, UNKNOWN");
	}
	const auto source = next_word(line);
	const auto destination = next_word(line);
	const auto source_port = next_word(line);
	const auto destination_port = next_word(line);
	if (!source || !destination || !source_port || !destination_port || !line.empty())
		return parsed::bad("PROXY line does not have two addresses and two ports");
	if (!read_ip(*source, family, into.source) ||
	    !read_ip(*destination, family, into.destination))
		return parsed::bad("PROXY line's address is malformed");
	if (!read_port(*source_port, into.source) ||
	    !read_port(*destination_port, into.destination))
		return parsed::bad("PROXY line's port is malformed");
	return parsed::done(size);
}

parsed read_v1(std::string_view bytes, proxy_header &into)
{
	const auto seen = bytes.substr(0, proxy_v1_most);
	/* A line end is both characters; either of them alone is malformed. */
	const auto stop = seen.find_first_of("\r\n"sv);
	if (stop == seen.npos) {
		if (seen.size() + 2 > proxy_v1_most)
			return parsed::bad("PROXY line is longer than 107 bytes");
		return parsed::more(std::max(v1_least, seen.size() + 2));
	}
	if (seen[stop] == '\n')
		return parsed::bad("PROXY line does not end in CR LF");
	if (stop + 1 == proxy_v1_most)
		return parsed::bad("PROXY line is longer than 107 bytes");
	if (stop + 1 == seen.size())
		return parsed::more(seen.size() + 1);
	if (seen[stop + 1] != '\n')
		return parsed::bad("PROXY line does not end in CR LF");
	return read_v1_line(seen.substr(0, stop), stop + 2, into);
}

/* ---- version 2 --------------------------------------------------------------------------- */

std::size_t address_size(unsigned char family)
{
	switch (family) {
	case family_ipv4:
		return 2 * 4 + 2 * 2;
	case family_ipv6:
		return 2 * 16 + 2 * 2;
	case family_unix:
		return 2 * unix_path_size;
	default:
		return 0;
	}
}

std::string read_path(std::string_view field)
{
	/* An abstract name may contain zeros; zeros at its end cannot be distinguished from
	 * padding. */
	if (field.front() == '\0') {
		const auto last = field.find_last_not_of('\0');
		return std::string(field.substr(0, last == field.npos ? 0 : last + 1));
	}
	return std::string(field.substr(0, field.find('\0')));
}

void read_addresses(std::string_view block, unsigned char family, proxy_header &into)
{
	if (family == family_unix) {
		into.of = proxy_header::family::local;
		into.source.path = read_path(block.substr(0, unix_path_size));
		into.destination.path = read_path(block.substr(unix_path_size, unix_path_size));
		return;
	}
	const std::size_t size = family == family_ipv4 ? 4 : 16;
	into.of = family == family_ipv4 ? proxy_header::family::ipv4 : proxy_header::family::ipv6;
	std::memcpy(into.source.ip.data(), block.data(), size);
	std::memcpy(into.destination.ip.data(), block.data() + size, size);
	into.source.port = number16(block, 2 * size);
	into.destination.port = number16(block, 2 * size + 2);
}

/* The checksum covers the whole header, with zeros in place of the checksum. */
bool checksum_is_right(std::string_view header, std::size_t at)
{
	std::string zeroed(header);
	std::fill_n(zeroed.begin() + static_cast<std::ptrdiff_t>(at), 4, '\0');
	const std::uint32_t expected =
		static_cast<std::uint32_t>(number16(header, at)) << 16 | number16(header, at + 2);
	return crc32c(zeroed) == expected;
}

/* Reads the records. Returns what is wrong with them, or null. */
const char *read_records(std::string_view header, std::size_t at, proxy_header &into)
{
	while (at < header.size()) {
		if (header.size() - at < 3)
			return "PROXY record is cut off";
		const unsigned char type = byte(header, at);
		const std::size_t size = number16(header, at + 1);
		at += 3;
		if (size > header.size() - at)
			return "PROXY record is longer than the header";
		const auto value = header.substr(at, size);
		switch (type) {
		case record_alpn:
			if (value.size() > name_most)
				return "PROXY record with a protocol of more than 255 bytes";
			into.alpn = value;
			break;
		case record_authority:
			if (value.size() > name_most)
				return "PROXY record with a name of more than 255 bytes";
			into.authority = value;
			break;
		case record_unique_id:
			if (value.size() > unique_id_most)
				return "PROXY record with an id of more than 128 bytes";
			into.unique_id = value;
			break;
		case record_tls:
			/* A byte of flags, four about a certificate, then nested records. */
			if (value.size() < 5)
				return "PROXY record about TLS is cut off";
			into.tls = (byte(value, 0) & tls_is_used) != 0;
			into.tls_bytes = value;
			break;
		case record_checksum:
			if (value.size() != 4 || into.checked)
				return "PROXY checksum is malformed";
			if (!checksum_is_right(header, at))
				return "PROXY checksum is wrong";
			into.checked = true;
			break;
		case record_padding:
			break;
		default:
			into.others.push_back({type, std::string(value)});
			break;
		}
		at += size;
	}
	return nullptr;
}

parsed read_v2(std::string_view bytes, proxy_header &into, std::size_t most)
{
	if (bytes.size() < v2_fixed) {
		/* Reject early if what has arrived is wrong already. */
		if (bytes.size() > 12 && byte(bytes, 12) != command_local &&
		    byte(bytes, 12) != command_proxy)
			return parsed::bad("PROXY version or command is unknown");
		return parsed::more(v2_fixed);
	}
	const unsigned char command = byte(bytes, 12);
	const unsigned char family = byte(bytes, 13) >> 4;
	const unsigned char transport = byte(bytes, 13) & 0xf;
	if (command != command_local && command != command_proxy)
		return parsed::bad("PROXY version or command is unknown");
	if (family > family_unix || transport > transport_datagram)
		return parsed::bad("PROXY address family or protocol is unknown");
	const std::size_t length = number16(bytes, 14);
	if (v2_fixed + length > most)
		return parsed::bad("PROXY header is longer than allowed");
	const bool useful = command == command_proxy && family != family_unspec &&
			    transport != transport_unspec;
	if (useful && length < address_size(family))
		return parsed::bad("PROXY header is too short for its addresses");
	if (bytes.size() < v2_fixed + length)
		return parsed::more(v2_fixed + length);

	const auto header = bytes.substr(0, v2_fixed + length);
	into.own = command == command_local;
	/* For LOCAL and UNSPEC only the length is defined, so nothing else is read. */
	if (!useful)
		return parsed::done(header.size());
	into.datagram = transport == transport_datagram;
	read_addresses(header.substr(v2_fixed, address_size(family)), family, into);
	if (const char *wrong = read_records(header, v2_fixed + address_size(family), into))
		return parsed::bad(wrong);
	return parsed::done(header.size());
}

void append16(std::string &out, std::size_t n)
{
	out += static_cast<char>(n >> 8 & 0xff);
	out += static_cast<char>(n & 0xff);
}

void append_record(std::string &out, unsigned char type, std::string_view value)
{
	out += static_cast<char>(type);
	append16(out, value.size());
	out += value;
}

std::size_t size_of(const std::vector<proxy_record> &records)
{
	std::size_t all = 0;
	for (const auto &each : records)
		all += record_fixed + each.value.size();
	return all;
}

/* The content of the TLS record: flags, then 0 if a certificate was verified, then nested
 * records. room: how long it may be with the client's certificate; left_out: whether it was too
 * long. */
std::string to_bytes(const proxy_tls &about, std::size_t room, bool &left_out)
{
	std::string out(
		1, static_cast<char>(tls_is_used | (about.shown_now ? tls_certificate_now : 0) |
				     (about.has_certificate ? tls_certificate_of_session : 0)));
	out.append(3, '\0');
	out += about.has_certificate ? '\0' : '\1';
	append_record(out, record_tls_version, about.version.substr(0, name_most));
	if (!about.common_name.empty())
		append_record(out, record_tls_common_name, about.common_name);
	append_record(out, record_tls_cipher, about.cipher.substr(0, name_most));
	left_out = !about.certificate.empty() &&
		   out.size() + record_fixed + about.certificate.size() > room;
	if (!about.certificate.empty() && !left_out)
		append_record(out, record_tls_certificate, about.certificate);
	return out;
}

void append_ips(std::string &out, const proxy_header &header, std::size_t size)
{
	for (const auto *end : {&header.source, &header.destination})
		out.append(reinterpret_cast<const char *>(end->ip.data()), size);
	append16(out, header.source.port);
	append16(out, header.destination.port);
}

void append_path(std::string &out, std::string_view path)
{
	path = path.substr(0, unix_path_size);
	out += path;
	out.append(unix_path_size - path.size(), '\0');
}

} // namespace

std::uint32_t crc32c(std::string_view bytes) noexcept
{
	/* Reflected 0x1edc6f41. One nibble at a time is enough for headers. */
	static constexpr auto table = [] {
		std::array<std::uint32_t, 16> made{};
		for (std::uint32_t i = 0; i < made.size(); i++) {
			made[i] = i;
			for (int bit = 0; bit < 4; bit++)
				made[i] = made[i] >> 1 ^ (made[i] & 1 ? 0x82f63b78U : 0);
		}
		return made;
	}();
	std::uint32_t crc = ~0U;
	for (const char c : bytes) {
		crc ^= static_cast<unsigned char>(c);
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

std::string to_text(const proxy_header &header, const proxy_end &end)
{
	char text[INET6_ADDRSTRLEN] = {};
	switch (header.of) {
	case proxy_header::family::none:
		break;
	case proxy_header::family::ipv4:
		inet_ntop(AF_INET, end.ip.data(), text, sizeof text);
		return std::string(text) + ":" + std::to_string(end.port);
	case proxy_header::family::ipv6:
		inet_ntop(AF_INET6, end.ip.data(), text, sizeof text);
		return "[" + std::string(text) + "]:" + std::to_string(end.port);
	case proxy_header::family::local: {
		std::string path = end.path;
		for (char &c : path)
			if (c <= ' ' || c > '~')
				c = '?';
		return "unix:" + path;
	}
	}
	return "";
}

parsed read_proxy_header(std::string_view bytes, proxy_header &into, proxy_versions allowed,
			 std::size_t most)
{
	into = {};
	const auto all = static_cast<unsigned>(allowed);
	/* The signatures of the two versions differ in the first byte. */
	if ((all & static_cast<unsigned>(proxy_versions::v1)) && may_begin(bytes, v1_signature)) {
		if (bytes.size() >= v1_signature.size())
			return read_v1(bytes, into);
		/* Without any bytes, either version is possible; the shortest header is one of
		 * version 1. */
		return parsed::more(v1_least);
	}
	if ((all & static_cast<unsigned>(proxy_versions::v2)) && may_begin(bytes, v2_signature))
		return bytes.size() < v2_signature.size() ? parsed::more(v2_fixed)
							  : read_v2(bytes, into, most);
	return parsed::bad("not a PROXY header");
}

std::string write_proxy_v1(const proxy_header &header)
{
	const bool v4 = header.of == proxy_header::family::ipv4;
	if ((!v4 && header.of != proxy_header::family::ipv6) || header.datagram)
		return "PROXY UNKNOWN\r\n";
	std::string line = v4 ? "PROXY TCP4" : "PROXY TCP6";
	for (const auto *end : {&header.source, &header.destination}) {
		char text[INET6_ADDRSTRLEN] = {};
		inet_ntop(v4 ? AF_INET : AF_INET6, end->ip.data(), text, sizeof text);
		line += ' ';
		line += text;
	}
	for (const auto *end : {&header.source, &header.destination})
		line += ' ' + std::to_string(end->port);
	return line + "\r\n";
}

std::string write_proxy_v2(const proxy_header &header, bool checksum, bool *left_out)
{
	bool is_left_out = false;
	std::string out(v2_signature);
	const bool known = header.of != proxy_header::family::none;
	out += static_cast<char>(!known && header.own ? command_local : command_proxy);
	out += static_cast<char>(static_cast<unsigned>(header.of) << 4 |
				 (!known            ? transport_unspec
				  : header.datagram ? transport_datagram
						    : transport_stream));
	out += "\0\0"sv; /* the length */

	switch (header.of) {
	case proxy_header::family::none:
		break;
	case proxy_header::family::ipv4:
		append_ips(out, header, 4);
		break;
	case proxy_header::family::ipv6:
		append_ips(out, header, 16);
		break;
	case proxy_header::family::local:
		append_path(out, header.source.path);
		append_path(out, header.destination.path);
		break;
	}
	if (!header.alpn.empty())
		append_record(out, record_alpn, header.alpn.substr(0, name_most));
	if (!header.authority.empty())
		append_record(out, record_authority, header.authority.substr(0, name_most));
	if (!header.unique_id.empty())
		append_record(out, record_unique_id, header.unique_id.substr(0, unique_id_most));
	const std::size_t rest = record_fixed + size_of(header.others) +
				 (checksum ? record_fixed + sizeof(std::uint32_t) : 0);
	const std::size_t room =
		proxy_v2_most > out.size() + rest ? proxy_v2_most - out.size() - rest : 0;
	if (header.about_tls)
		append_record(out, record_tls, to_bytes(*header.about_tls, room, is_left_out));
	else if (!header.tls_bytes.empty())
		append_record(out, record_tls, header.tls_bytes);
	for (const auto &each : header.others)
		append_record(out, each.type, each.value);
	if (checksum)
		append_record(out, record_checksum, "\0\0\0\0"sv);

	if (left_out)
		*left_out = is_left_out;
	const std::size_t length = out.size() - v2_fixed;
	out[14] = static_cast<char>(length >> 8);
	out[15] = static_cast<char>(length & 0xff);
	if (checksum) {
		const std::uint32_t crc = crc32c(out);
		for (std::size_t i = 0; i < 4; i++)
			out[out.size() - 4 + i] = static_cast<char>(crc >> (24 - 8 * i) & 0xff);
	}
	return out;
}

} // namespace relay
