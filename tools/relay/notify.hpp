/* SPDX-License-Identifier: MIT */
/*
 * Tells the service manager how it stands with the relay (sd_notify(3)'s protocol: a datagram to
 * the socket that NOTIFY_SOCKET names). Without such a variable each call does nothing. What cannot
 * be told is not told: the relay is not worse for that.
 */
#ifndef RELAY_NOTIFY_HPP
#define RELAY_NOTIFY_HPP

#include <string_view>

namespace relay
{

/* It serves; also after a reload. */
void notify_ready() noexcept;
/* It reads its configuration anew; notify_ready() ends that, whether it was taken or not. */
void notify_reloading() noexcept;
/* It accepts no more, and ends when what is open has ended. */
void notify_stopping() noexcept;
/* Another process has taken over and is this service from now on. */
void notify_main_pid(long pid) noexcept;
/* A line for people, shown by systemctl status. */
void notify_status(std::string_view text) noexcept;

} // namespace relay

#endif
