/* SPDX-License-Identifier: MIT */
#include "wire/quic_packet.hpp"

#include "wire/quic_crypto.hpp"

namespace relay
{
namespace
{

constexpr std::size_t connection_id_most = 20;

/* Takes fields from the front of the bytes, as tls_hello.cc does. */
class quic_reader
{
public:
	explicit quic_reader(std::string_view bytes) : rest_(bytes) {}

	std::string_view take(std::uint64_t n)
	{
		if (n > rest_.size()) {
			failed_ = true;
			rest_ = {};
			return {};
		}
		const auto taken = rest_.substr(0, static_cast<std::size_t>(n));
		rest_.remove_prefix(taken.size());
		return taken;
	}

	std::uint64_t number(std::size_t bytes)
	{
		std::uint64_t n = 0;
		for (const char c : take(bytes))
			n = n << 8 | static_cast<unsigned char>(c);
		return n;
	}

	/* QUIC's number of variable length: the first two bits say how many bytes it has. */
	std::uint64_t varint()
	{
		if (rest_.empty()) {
			failed_ = true;
			return 0;
		}
		const unsigned power = static_cast<unsigned char>(rest_.front()) >> 6;
		const std::size_t bytes = std::size_t{1} << power;
		return number(bytes) & (UINT64_MAX >> (64 - 8 * bytes + 2));
	}

	std::size_t left() const { return rest_.size(); }
	bool failed() const { return failed_; }

private:
	std::string_view rest_;
	bool failed_ = false;
};

enum : std::uint64_t {
	frame_padding = 0,
	frame_ping = 1,
	frame_ack = 2,
	frame_ack_ecn = 3,
	frame_crypto = 6,
	frame_connection_close = 0x1c,
};

void skip_ack(quic_reader &from, bool has_ecn)
{
	from.varint(); /* largest */
	from.varint(); /* delay */
	auto ranges = from.varint();
	from.varint(); /* first range */
	for (; ranges > 0 && !from.failed(); ranges--) {
		from.varint(); /* gap */
		from.varint(); /* range */
	}
	for (int i = 0; has_ecn && i < 3; i++)
		from.varint();
}

} // namespace

quic_packet read_quic_packet(std::string_view bytes)
{
	quic_packet made;
	quic_reader from(bytes);
	const auto first = from.number(1);
	made.version = static_cast<std::uint32_t>(from.number(4));
	made.destination = from.take(from.number(1));
	made.source = from.take(from.number(1));
	/* Version 0 is a server's Version Negotiation. */
	if (from.failed() || !(first & 0x80) || made.version == 0)
		return {};
	if (made.version != quic_version_1 && made.version != quic_version_2) {
		made.is = quic_packet::kind::other_version;
		return made;
	}
	/* The fixed bit may be clear, because peers may agree on that (RFC 9287), and a client
	 * remembers it with its token. */
	if (made.destination.size() > connection_id_most || made.source.size() > connection_id_most)
		return {};
	/* 0: Initial, 1: 0-RTT, 2: Handshake, 3: Retry; each one more in version 2. */
	const auto type = (first >> 4) + (made.version == quic_version_2 ? 3 : 0);
	const bool is_initial = type % 4 == 0;
	made.is = is_initial      ? quic_packet::kind::initial
		  : type % 4 == 1 ? quic_packet::kind::zero_rtt
				  : quic_packet::kind::other;
	if (type % 4 == 3) {
		made.size = bytes.size();
		return made;
	}
	if (is_initial)
		from.take(from.varint()); /* token */
	const auto length = from.varint();
	made.number = bytes.size() - from.left();
	from.take(length);
	if (from.failed())
		return {};
	made.size = bytes.size() - from.left();
	return made;
}

bool read_quic_frames(std::string_view frames, std::size_t most,
		      std::vector<quic_crypto_part> &into)
{
	quic_reader from(frames);
	while (from.left() > 0) {
		switch (from.varint()) {
		case frame_padding:
		case frame_ping:
			break;
		case frame_ack:
			skip_ack(from, false);
			break;
		case frame_ack_ecn:
			skip_ack(from, true);
			break;
		case frame_crypto: {
			const auto offset = from.varint();
			const auto part = from.take(from.varint());
			if (from.failed() || into.size() >= most)
				return false;
			into.push_back({offset, part});
			break;
		}
		case frame_connection_close:
			from.varint(); /* error */
			from.varint(); /* type of the frame that caused it */
			from.take(from.varint());
			break;
		default:
			return false;
		}
		if (from.failed())
			return false;
	}
	return true;
}

std::string write_version_negotiation(const quic_packet &to)
{
	std::string made;
	const auto add = [&made](std::uint32_t number) {
		for (int shift = 24; shift >= 0; shift -= 8)
			made += static_cast<char>(number >> shift & 0xff);
	};
	made += '\xc0';
	add(0);
	for (const auto id : {to.source, to.destination}) {
		made += static_cast<char>(id.size());
		made += id;
	}
	add(quic_version_1);
	return made;
}

} // namespace relay
