/* SPDX-License-Identifier: MIT */
/*
 * Reports the relay's state to the service manager (sd_notify(3)'s protocol: a datagram to the
 * socket named by NOTIFY_SOCKET). Without that variable each call does nothing. Failures are
 * ignored, because the relay works without a service manager.
 *
 * No call waits. If the manager is busy and its socket full, or the system lacks a descriptor or
 * memory, a task of its own tries again, for `notify_patience`, and later messages follow it. Then
 * all of them are given up. No memory or no task for this: the message is lost.
 */
#ifndef RELAY_NOTIFY_HPP
#define RELAY_NOTIFY_HPP

#include <chrono>
#include <string_view>

namespace relay
{

inline constexpr std::chrono::seconds notify_patience{5};

/* Called when messages were given up, with the first line of the first of them, and why: EAGAIN if
 * the manager's socket stayed full. Null: it is not reported. Set it before the first message. */
extern void (*notify_lost)(std::string_view first, int error) noexcept;

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

/* Whether all messages are sent or given up. A process that ends after another has taken over has
 * to wait for it: the manager takes the end of the main process for the end of the service. */
bool is_notified() noexcept;

} // namespace relay

#endif
