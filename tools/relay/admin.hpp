/* SPDX-License-Identifier: MIT */
/*
 * The admin server: what the relay tells about itself, over HTTP, at a listener of its own.
 *
 *   /         a web page that shows it live     /metrics  for Prometheus
 *   /json     the same for scripts              /healthz  200 as long as the process answers
 *   /ready    200; 503 as soon as draining begins, which is before listening stops
 *
 * It only reads. Whoever can connect may see everything, so it belongs on an address that is not
 * public. Clients cost a task and a descriptor each and are bounded: there are at most
 * `connections_most`, others are told 503; a request has to be there within `request_time` from its
 * first byte, or is told 408; who takes no answer for `answer_time`, or asks nothing for
 * `idle_time`, is left.
 *
 * It goes on while the relay drains, so that draining can be watched: close it last.
 */
#ifndef RELAY_ADMIN_HPP
#define RELAY_ADMIN_HPP

#include "snapshot.hpp"

#include <sennit/sennit.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace relay
{

struct admin_limits {
	std::size_t connections_most = 64;
	std::chrono::nanoseconds request_time = std::chrono::seconds(10);
	std::chrono::nanoseconds answer_time = std::chrono::seconds(20);
	/* Longer than the minute at which Prometheus scrapes by default. */
	std::chrono::nanoseconds idle_time = std::chrono::seconds(90);
};

class admin_server
{
public:
	/* Listens. On failure explains it in why. The source outlives the server. May park. */
	static std::unique_ptr<admin_server> open(const snapshot_source &source,
						  const std::string &listen, std::string &why,
						  const admin_limits &limits = {});

	/* The same at a listener that was handed down. */
	admin_server(const snapshot_source &source, sn::tcp_listener listener,
		     const admin_limits &limits = {});
	admin_server(const admin_server &) = delete;
	admin_server &operator=(const admin_server &) = delete;

	/* Where it listens, with the port that the system chose. */
	const std::string &address() const noexcept { return address_; }
	int fd() const noexcept { return sn_tcp_listener_fd(listener_.get()); }

	/* Serves, in tasks of its own, until close(). Once. */
	void start();

	/*
	 * Lets in who has connected by now, and closes the listener; each client that is there gets
	 * one more answer, and is closed. Does not wait. close() is still to be called.
	 */
	void retire() noexcept;

	/* After that: whether nobody is there any more. */
	bool over() noexcept;

	/* Ends every connection, and waits until its tasks have ended. Not without start(). May
	 * park. */
	void close();

private:
	struct answer;
	class guest;

	bool is_open() const noexcept
	{
		return !stopping_.load(std::memory_order_relaxed) &&
		       !retiring_.load(std::memory_order_relaxed);
	}
	void serve();
	void serve_queue();
	void admit(sn::tcp client);
	void talk(sn::tcp &client);
	answer answer_to(std::string_view method, std::string_view path) const;

	const snapshot_source &source_;
	const admin_limits limits_;
	sn::tcp_listener listener_;
	std::string address_;
	std::atomic<bool> stopping_{false};
	std::atomic<bool> retiring_{false};
	std::atomic<bool> closed_{false}; /* the listener is, by serve_queue() */
	sn::task<void> accepting_;
	sn::wait_group talking_;
	std::mutex lock_; /* of guests_; never held while anything parks */
	std::list<guest *> guests_;
};

} // namespace relay

#endif
