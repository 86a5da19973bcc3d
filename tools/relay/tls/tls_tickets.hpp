/* SPDX-License-Identifier: MIT */
/*
 * The keys of session tickets, which all listeners of the process have in common. A client whose
 * ticket is known does not need the expensive part of a handshake, so the keys outlive a reload,
 * new certificates, and a handover: the old process passes them on by a file in memory, whose
 * descriptor the new process inherits.
 *
 * Whoever learns a key can read recorded connections of TLS 1.2 that were resumed by its tickets. A
 * new key is therefore made each day, and the oldest of three is forgotten. Keys are never stored
 * in a file system or in the environment.
 *
 * Any task and thread may call.
 */
#ifndef RELAY_TLS_TICKETS_HPP
#define RELAY_TLS_TICKETS_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace relay
{

class tls_tickets
{
public:
	static constexpr std::size_t key_size = 80; /* SN_TLS_TICKET_KEY */
	static constexpr std::size_t most_keys = 3;
	using key = std::array<unsigned char, key_size>;

	tls_tickets() = default;
	tls_tickets(const tls_tickets &) = delete;
	tls_tickets &operator=(const tls_tickets &) = delete;
	~tls_tickets();

	/* Takes the keys that the old process passes on, if there are any, and removes the
	 * environment variable with their descriptor. Call it before there are threads. */
	void take_over();

	/* The keys, the newest first; at least one. The first call makes a key if there is none.
	 * generation: set to theirs. Throws std::system_error if there is no source of random
	 * bytes. */
	std::vector<key> keys(std::uint64_t *generation = nullptr) const;

	/* A number that is larger after each renewal. */
	std::uint64_t generation() const;

	/* Makes a new key if the newest is a day old, and returns true if it did. now: seconds
	 * since 1970. */
	bool renew(std::int64_t now);

	/* Returns a close-on-exec descriptor with the keys for a new process, or -1 if there are
	 * no keys, or no memory for it. The caller closes it. */
	int to_hand_over() const;

private:
	static key make();

	mutable std::mutex lock_; /* guards the fields below */
	mutable std::vector<key> keys_;
	std::int64_t made_ = 0; /* when renew() first saw the newest */
	std::uint64_t generation_ = 0;
};

/* The environment variable with the number of that descriptor. */
inline constexpr const char *tickets_variable = "SENNIT_RELAY_TICKETS";

} // namespace relay

#endif
