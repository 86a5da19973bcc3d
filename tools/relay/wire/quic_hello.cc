/* SPDX-License-Identifier: MIT */
#include "wire/quic_hello.hpp"

#include "wire/quic_crypto.hpp"

#include <algorithm>
#include <array>

namespace relay
{
namespace
{

/* The most gaps. A hello has fewer pieces in the datagrams that are kept. */
constexpr std::size_t gaps_most = 256;

/* Bounds on the work for one datagram, see quic_hello.hpp. */
constexpr std::size_t datagram_most = 9216;
constexpr std::size_t packets_most = 4;
constexpr std::size_t parts_most = 256;

/* Removes the protection of a packet, and reads its frames. Returns false if that fails. */
bool open_initial(std::string_view packet, const quic_packet &header, const quic_keys &keys,
		  std::string &plain)
{
	/* The sample begins where it would if the packet's number had four bytes. */
	constexpr std::size_t number_most = 4;
	if (packet.size() - header.number < number_most + quic_sample_size)
		return false;
	std::array<unsigned char, 5> mask;
	if (!quic_header_mask(keys, packet.substr(header.number + number_most, quic_sample_size),
			      mask))
		return false;
	std::string clear(packet.substr(0, header.number + number_most));
	clear[0] = static_cast<char>(clear[0] ^ (mask[0] & 0x0f));
	const std::size_t size = 1 + (static_cast<unsigned char>(clear[0]) & 3);
	/* A client's first packets have small numbers, so the bytes that are left out are 0. */
	std::uint64_t number = 0;
	for (std::size_t i = 0; i < size; i++) {
		char &byte = clear[header.number + i];
		byte = static_cast<char>(byte ^ mask[1 + i]);
		number = number << 8 | static_cast<unsigned char>(byte);
	}
	clear.resize(header.number + size);
	return open_quic_payload(keys, number, clear, packet.substr(clear.size()), plain);
}

/* The message as a TLS record, as tls_hello.hpp expects it. */
std::string to_record(std::string_view message)
{
	std::string made("\x16\x03\x01", 3);
	made += static_cast<char>(message.size() >> 8);
	made += static_cast<char>(message.size() & 0xff);
	made += message;
	return made;
}

} // namespace

void quic_hello::insert(const quic_crypto_part &part)
{
	auto from = static_cast<std::size_t>(part.offset);
	auto to = from + part.bytes.size();
	if (bytes_.size() < to)
		bytes_.resize(to);
	const auto copy = [&](std::size_t begin, std::size_t end) {
		part.bytes.copy(bytes_.data() + begin, end - begin,
				begin - static_cast<std::size_t>(part.offset));
	};
	/* Copies bytes into the gaps only. Then one entry replaces all that the part touches. */
	std::size_t at = from;
	for (const auto &[begin, end] : there_) {
		if (at < begin && begin < to)
			copy(at, begin);
		else if (begin >= to)
			break;
		at = std::max(at, end);
	}
	if (at < to)
		copy(at, to);
	const auto touches = [&](const auto &each) {
		return each.first <= to && each.second >= from;
	};
	for (const auto &each : there_)
		if (touches(each)) {
			from = std::min(from, each.first);
			to = std::max(to, each.second);
		}
	std::erase_if(there_,
		      [&](const auto &each) { return each.first >= from && each.second <= to; });
	const auto place =
		std::ranges::upper_bound(there_, from, {}, &decltype(there_)::value_type::first);
	there_.insert(place, {from, to});
}

quic_hello::state quic_hello::add(std::string_view datagram, tls_hello &into)
{
	constexpr std::size_t most = tls_hello_most - 5; /* without the header of a record */
	std::string plain;
	std::vector<quic_crypto_part> parts;
	std::size_t packets = 0;
	std::size_t parts_left = parts_most;
	bool has_initial = false;
	bool is_early = false;
	quic_keys keys;
	for (auto rest = datagram; !rest.empty();) {
		const auto packet = read_quic_packet(rest);
		if (packet.is == quic_packet::kind::other_version && rest.size() == datagram.size())
			return state::other_version;
		if (packet.is == quic_packet::kind::none ||
		    packet.is == quic_packet::kind::other_version)
			break; /* what follows the packets may be anything */
		is_early = is_early || (packet.is == quic_packet::kind::zero_rtt &&
					rest.size() == datagram.size());
		if (++packets > packets_most)
			return state::bad;
		if (packet.is == quic_packet::kind::initial) {
			if (datagram.size() > datagram_most)
				return state::bad;
			if (version_ == 0) {
				version_ = packet.version;
				destination_ = packet.destination;
			}
			/* All packets of a datagram, and of the client's first datagrams, have
			 * the same destination id. Other packets belong to another connection. */
			if (packet.version != version_ || packet.destination != destination_)
				return state::bad;
			if (!has_initial && !derive_quic_keys(version_, destination_, keys))
				return state::bad;
			has_initial = true;
			parts.clear();
			if (!open_initial(rest.substr(0, packet.size), packet, keys, plain) ||
			    !read_quic_frames(plain, parts_left, parts))
				return state::bad;
			parts_left -= parts.size();
			for (const auto &part : parts) {
				if (part.offset > most || part.bytes.size() > most - part.offset)
					return state::bad;
				if (!part.bytes.empty())
					insert(part);
				if (there_.size() > gaps_most)
					return state::bad;
			}
		}
		rest.remove_prefix(packet.size);
	}
	if (!has_initial && version_ != 0)
		return state::more;
	if (!has_initial)
		return is_early ? state::early : state::not_first;
	if (there_.empty() || there_.front().first != 0)
		return state::more;
	const auto read = read_tls_hello(
		to_record(std::string_view(bytes_).substr(0, there_.front().second)), into);
	switch (read.is) {
	case parsed::state::done:
		return state::done;
	case parsed::state::more:
		return state::more;
	case parsed::state::bad:
		break;
	}
	return state::bad;
}

} // namespace relay
