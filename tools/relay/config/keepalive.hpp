/* SPDX-License-Identifier: MIT */
/*
 * TCP keepalive: the kernel probes silent peers to find out whether they are still there.
 *
 * A peer that has lost its power, its network or its state sends nothing any more. To the relay its
 * connection is a silent one like any other. It holds two descriptors and a place at the backend
 * until the idle timeout, or forever if there is none. With keepalive the kernel probes: a peer
 * that is alive acknowledges without its program noticing, one that has forgotten the connection
 * resets it, and one that does not answer is given up after a number of probes. The session treats
 * the last two as a reset. Probes move no bytes, so they do not affect the idle timeout.
 *
 * It is on by default, as in Go and unlike in HAProxy and nginx: a user that sets a long idle
 * timeout, or none, wants to keep connections, not dead ones. The first probe comes after a minute.
 * That is shorter than the time after which the NATs and load balancers in use forget a silent
 * connection (4 minutes is the shortest common one), and costs 10,000 idle connections 170 probes a
 * second on each side. With four probes 15 s apart, a peer that has vanished is noticed within two
 * minutes, and a network outage of less than one is survived.
 *
 * While bytes wait for an acknowledgement the kernel does not probe: it retransmits them instead,
 * for some 15 minutes. user_timeout (TCP_USER_TIMEOUT) limits that. It is off by default, because
 * it does not only end connections of vanished peers: a client that is alive and does not read for
 * that long, such as a paused video player, is ended as well if bytes wait for it. With both,
 * silence ends a connection after the user timeout, and the number of probes does not count.
 *
 * Accepted connections inherit the settings that the listening socket had when they were made, so
 * accepting costs nothing more. Connections that were already in the backlog when the settings
 * changed are set one by one: at the start with a socket from systemd, and after a reload.
 *
 * For connections to backends it takes four system calls, 2 us of the 100 that a short connection
 * takes. So only connections that last get it: every keepalive_round one task looks for sessions
 * that are as old as keepalive_delay (sessions.hpp), in the order in which they were accepted. This
 * delays no probe, because the kernel counts from the last sign of life and not from when keepalive
 * was enabled. With settings so short that the delay could matter, or with a user timeout,
 * connections are set at once. Rejected: an alarm for each session, because ten thousand sessions
 * that arrive together would later cause ten thousand tasks at the same time.
 */
#ifndef RELAY_KEEPALIVE_HPP
#define RELAY_KEEPALIVE_HPP

#include "config/config.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace relay
{

/* The time in seconds, or nothing if the kernel does not accept it: whole seconds, 1s to 9h. */
std::optional<std::chrono::seconds> to_keepalive(std::chrono::nanoseconds time) noexcept;

/*
 * Applies the settings to connections that arrive at the listening socket from now on. Returns how
 * many of the next accepted connections may lack them: those in the backlog, and one that is just
 * being accepted. Returns UINT64_MAX (all connections, forever) if the system does not accept the
 * settings or does not report the length of the backlog.
 */
std::uint64_t set_keepalive_of_listener(int fd, const keepalive_config &to) noexcept;

/* Applies the settings to a connection, replacing earlier ones. Returns false if the system does
 * not accept them. */
bool set_keepalive(int fd, const keepalive_config &to) noexcept;

/* The same for a connection with the system's defaults, which needs fewer system calls. */
bool set_keepalive_of_new(int fd, const keepalive_config &to) noexcept;

/* The age that a session must reach before keepalive is set for its backend's connection, if
 * that can wait; and the interval at which sessions are examined. */
inline constexpr std::chrono::seconds keepalive_delay{4};
inline constexpr std::chrono::seconds keepalive_round{2};

/* Whether setting a connection later makes no difference. */
constexpr bool keepalive_can_wait(const keepalive_config &to) noexcept
{
	return to.user_timeout.count() == 0 && to.idle >= 2 * (keepalive_delay + keepalive_round);
}

} // namespace relay

#endif
