/* SPDX-License-Identifier: MIT */
/*
 * The clients of a UDP listener whose hello is not complete (quic_hello.hpp), with the datagrams
 * that they have sent so far. They are kept for a bounded time and in bounded memory:
 * `clients_most` clients, each with the datagrams that one hello can need. Only the listener's task
 * uses this.
 *
 * When there are too many, the client that has waited longest is dropped. The rest of a hello
 * usually comes immediately; if it does not, it was probably lost, or the datagram was forged.
 * Rejected: turning the new client away. Then a thousand forged datagrams a second would turn all
 * clients away, and so would clients that never come back if there is no timeout.
 */
#ifndef RELAY_UDP_PENDING_HPP
#define RELAY_UDP_PENDING_HPP

#include "sessions/udp_port.hpp"
#include "wire/quic_hello.hpp"

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace relay
{

class udp_pending
{
public:
	/* A usual hello of two datagrams takes about 3 KB, the largest possible one about 50 KB. */
	static constexpr std::size_t clients_most = 4096;

	struct client {
		udp_key key;
		std::int64_t until = 0;
		quic_hello hello{};
		std::vector<std::string> datagrams{};
		std::size_t bytes = 0;
	};

	/* Null if the client is not there. */
	client *find(const udp_key &key) noexcept
	{
		const auto at = places_.find(key);
		return at == places_.end() ? nullptr : &*at->second;
	}

	/* Adds a client that is not there, with the part of its hello that has been read. If
	 * another client is dropped for it, adds the number of that client's datagrams to
	 * `lost`. Throws std::bad_alloc. */
	client &add(const udp_key &key, std::int64_t until, quic_hello begun, std::size_t &lost)
	{
		clients_.push_back({.key = key, .until = until, .hello = std::move(begun)});
		try {
			places_[key] = std::prev(clients_.end());
		} catch (...) {
			clients_.pop_back();
			throw;
		}
		if (clients_.size() > clients_most) {
			lost += clients_.front().datagrams.size();
			remove(clients_.front());
		}
		return clients_.back();
	}

	/* Keeps a datagram. False if there are as many as a hello needs; then the client stays as
	 * it is. Throws std::bad_alloc. */
	static bool keep(client &of, std::string_view datagram)
	{
		if (of.datagrams.size() >= 16 || of.bytes + datagram.size() > 2 * tls_hello_most)
			return false;
		of.datagrams.emplace_back(datagram);
		of.bytes += datagram.size();
		return true;
	}

	void remove(const client &which) noexcept
	{
		const auto at = places_.find(which.key);
		const auto entry = at->second;
		places_.erase(at);
		clients_.erase(entry);
	}

	struct expired {
		std::size_t clients = 0;
		std::size_t datagrams = 0;
	};

	/* Removes clients whose time is over. Returns how many, and how many datagrams they had. */
	expired expire(std::int64_t now) noexcept
	{
		expired all;
		while (!clients_.empty() && clients_.front().until <= now) {
			all.clients++;
			all.datagrams += clients_.front().datagrams.size();
			remove(clients_.front());
		}
		return all;
	}

	/* When the time of the next client is over; INT64_MAX: there is none. Clients expire in the
	 * order in which they came, unless a reload has shortened the time. */
	std::int64_t next() const noexcept
	{
		return clients_.empty() ? INT64_MAX : clients_.front().until;
	}

private:
	std::list<client> clients_;
	std::unordered_map<udp_key, std::list<client>::iterator, udp_key_hash> places_;
};

} // namespace relay

#endif
