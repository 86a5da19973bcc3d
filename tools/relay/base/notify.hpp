/* SPDX-License-Identifier: MIT */
/*
 * Reports the relay's state to the service manager (sd_notify(3)'s protocol: a datagram to the
 * socket named by NOTIFY_SOCKET). Without that variable each call does nothing. Failures are
 * ignored, because the relay works without a service manager.
 */
#ifndef RELAY_NOTIFY_HPP
#define RELAY_NOTIFY_HPP

#include <string_view>

namespace relay
{

/* The relay serves; also after a reload. */
void notify_ready() noexcept;
/* A reload has begun. notify_ready() ends it, whether the configuration was accepted or not. */
void notify_reloading() noexcept;
/* The relay accepts no more connections, and ends when the open ones have ended. */
void notify_stopping() noexcept;
/* Another process has taken over, and is the service's main process from now on. */
void notify_main_pid(long pid) noexcept;
/* A line for people, shown by systemctl status. */
void notify_status(std::string_view text) noexcept;

} // namespace relay

#endif
