/* SPDX-License-Identifier: MIT */
/*
 * A pause in opening sessions after a socket could not be had, for lack of ports or descriptors.
 * Each further attempt would cost system calls in the task that receives for all clients, and
 * finding that no port is free takes a search through all of them. It lasts until a session has
 * ended, because that may have freed what is missing, or for a moment, because other programs free
 * things, too. Only the listener's task uses it.
 */
#ifndef RELAY_UDP_PAUSE_HPP
#define RELAY_UDP_PAUSE_HPP

#include <cstddef>
#include <cstdint>

namespace relay
{

class udp_pause
{
public:
	static constexpr std::int64_t longest = 50'000'000;

	/* alive: how many sessions there are in the process. */
	void begin(std::int64_t now, std::size_t alive) noexcept
	{
		until_ = now + longest;
		alive_ = alive;
	}

	bool lasts(std::int64_t now, std::size_t alive) const noexcept
	{
		return now < until_ && alive >= alive_;
	}

private:
	std::int64_t until_ = 0;
	std::size_t alive_ = 0;
};

} // namespace relay

#endif
