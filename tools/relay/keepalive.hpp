/* SPDX-License-Identifier: MIT */
/*
 * Asking peers that are silent whether they are still there, which the kernel does (TCP keepalive).
 *
 * A peer that has lost its power, its network or its state says nothing any more. To the relay that
 * is a silent connection like any other, which holds two descriptors and a place at the backend
 * until the idle timeout, and for ever when that is none. With keepalive the kernel probes: a peer
 * that is there acknowledges without its program noticing, one that has forgotten the connection
 * resets it, and one that answers nothing is given up after so many probes; the session takes
 * either for a reset. No byte moves by it, so the idle timeout does not notice.
 *
 * It is on unless said otherwise, as in Go and unlike in HAProxy and nginx: who sets a long idle
 * timeout, or none, wants to keep connections, not corpses. The first probe comes after a minute:
 * that is below the times after which the NATs and load balancers in use forget a silent
 * connection, of which 4 minutes is the shortest that is common, and costs 10,000 idle connections
 * 170 probes a second on each side. Four probes 15 s apart: who is gone is noticed within two
 * minutes, and a network that is away for less than one is forgiven.
 *
 * Bytes that wait for an acknowledgement keep the kernel from probing: it sends them again instead,
 * for some 15 minutes. user_timeout (TCP_USER_TIMEOUT) is for that. It is off unless asked for, as
 * it does not only end those who are gone: a client that is there and reads nothing for so long,
 * such as a video that pauses, is ended as well when bytes wait for it. With both, silence ends a
 * connection after the user timeout, and the number of probes does not count.
 *
 * Connections to a listener have what its socket had when they were made, so accepting costs
 * nothing more. Those that were in its queue already when it was set there are told one by one: at
 * the start with a socket from systemd, and after a reload.
 *
 * For connections to backends it takes four system calls, 2 us of the 100 that a short connection
 * takes. So only those that live have it: one task looks every keepalive_round for sessions that
 * are as old as keepalive_delay (sessions.hpp), in the order in which they came. No probe is later
 * for it, as the kernel counts from the last sign of life and not from when it was told to. Who
 * asks so soon that the delay could matter, or has a user timeout, is told at once. Rejected: an
 * alarm for each, as ten thousand that come at once would be as many tasks at once later.
 */
#ifndef RELAY_KEEPALIVE_HPP
#define RELAY_KEEPALIVE_HPP

#include "config.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace relay
{

/* What the kernel can be told: whole seconds, 1s to 9h. */
std::optional<std::chrono::seconds> to_keepalive(std::chrono::nanoseconds time) noexcept;

/*
 * From now on for connections that come to the listening socket. Returns for how many that are
 * accepted next it may not hold: those that were in the queue, and one that is just being accepted;
 * UINT64_MAX, for ever, when the system does not take it or does not tell.
 */
std::uint64_t set_keepalive_of_listener(int fd, const keepalive_config &to) noexcept;

/* Of a connection; what it had before is over. False when the system does not take it. */
bool set_keepalive(int fd, const keepalive_config &to) noexcept;

/* The same of one that has what connections have by default, and so need not be told all. */
bool set_keepalive_of_new(int fd, const keepalive_config &to) noexcept;

/* So old is a session at least when its backend's connection is told, where that can wait, and so
 * often is looked. */
inline constexpr std::chrono::seconds keepalive_delay{4};
inline constexpr std::chrono::seconds keepalive_round{2};

/* Whether it makes no difference that a connection is told later. */
constexpr bool keepalive_can_wait(const keepalive_config &to) noexcept
{
	return to.user_timeout.count() == 0 && to.idle >= 2 * (keepalive_delay + keepalive_round);
}

} // namespace relay

#endif
