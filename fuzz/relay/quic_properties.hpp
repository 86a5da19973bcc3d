/* SPDX-License-Identifier: MIT */
/*
 * What must hold for the reader of QUIC's hello, whatever the datagrams are; like properties.hpp.
 * An input is a list of datagrams, each after its size in two bytes.
 */
#ifndef FUZZ_RELAY_QUIC_PROPERTIES_HPP
#define FUZZ_RELAY_QUIC_PROPERTIES_HPP

#include "properties.hpp"
#include "wire/quic_hello.hpp"

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace properties
{

/* Bytes that are copied to memory of exactly their size, for the address sanitizer. */
struct piece {
	std::unique_ptr<char[]> bytes;
	std::size_t size;

	std::string_view view() const { return {bytes.get(), size}; }
};

inline std::vector<piece> datagrams_of(std::string_view bytes)
{
	std::vector<piece> all;
	while (bytes.size() >= 2) {
		std::size_t size = static_cast<std::size_t>(static_cast<unsigned char>(bytes[0]))
					   << 8 |
				   static_cast<unsigned char>(bytes[1]);
		bytes.remove_prefix(2);
		size = size < bytes.size() ? size : bytes.size();
		piece one{std::unique_ptr<char[]>(new char[size ? size : 1]), size};
		bytes.copy(one.bytes.get(), size);
		all.push_back(std::move(one));
		bytes.remove_prefix(size);
	}
	return all;
}

inline void quic_hello(std::string_view bytes)
{
	using state = relay::quic_hello::state;
	const auto all = datagrams_of(bytes);
	relay::quic_hello once, twice;
	for (const auto &each : all) {
		const auto packet = relay::read_quic_packet(each.view());
		using kind = relay::quic_packet::kind;
		if (packet.is == kind::initial || packet.is == kind::zero_rtt ||
		    packet.is == kind::other) {
			require(packet.size > 0 && packet.size <= each.size,
				"a packet is in its datagram");
			require(packet.number <= packet.size, "a packet's number is in it");
			require(packet.destination.size() <= 20 && packet.source.size() <= 20,
				"connection ids are short");
		}
		if (packet.is == kind::other_version)
			require(relay::write_version_negotiation(packet).size() <= 11 + 2 * 255,
				"the answer is small");

		relay::tls_hello hello, other;
		const auto is = once.add(each.view(), hello);
		/* A datagram that comes twice counts once. */
		auto again = twice.add(each.view(), other);
		if (again == state::more)
			again = twice.add(each.view(), other);
		require(again == is, "a datagram that is repeated changes nothing");
		if (is != state::done) {
			require(hello.name.empty(), "a hello that is not read sets nothing");
			continue;
		}
		require(hello == other, "a datagram that is repeated changes nothing");
		require(hello.name.size() <= 253, "the name is one that a host can have");
		for (const char c : hello.name)
			require((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
					c == '_' || c == '.',
				"the name is one that a host can have");
		return;
	}
}

} // namespace properties

#endif
