/* SPDX-License-Identifier: MIT */
/*
 * Sending datagrams without waiting for room, because the task that sends them serves other clients
 * as well.
 */
#ifndef RELAY_UDP_SEND_HPP
#define RELAY_UDP_SEND_HPP

#include "sessions/udp_port.hpp"

#include <string_view>
#include <sys/socket.h>
#include <sys/types.h>

namespace relay
{

/* Sends as sendmsg() does, but fails with EAGAIN instead of waiting for room. */
ssize_t send_at_once(int fd, const msghdr &message) noexcept;

/* Sends to a client, from the address to which it has sent. What cannot be sent is lost. */
void answer_at_once(const udp_port &from, const udp_key &to, std::string_view bytes) noexcept;

} // namespace relay

#endif
