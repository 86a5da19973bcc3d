/* SPDX-License-Identifier: MIT */
/*
 * The admin server: the state of the relay over HTTP, on a listener of its own.
 *
 *   /         a live web page                      /metrics  for Prometheus
 *   /json     the same for scripts                 /healthz  200 as long as the process answers
 *   /ready    200, or 503 once the relay has been asked to stop, while it still listens
 *   /history  the last hour, in a few numbers (history.hpp); ?since=UPTIME_MS: what came after
 *
 * It answers only requests to one of its own names (host_names.hpp); others get 421. /healthz and
 * /ready, which say next to nothing, answer under every name.
 *
 * It is read-only, unless let_control() makes it a control server. A control server also has the
 * paths of control.hpp. If it has a token, every request except /healthz and /ready must carry it,
 * or gets 401. Every client that can connect sees everything, so it belongs on an address that is
 * not public.
 *
 * Each client costs a task and a descriptor, and their use is bounded. There are at most
 * `connections_most` clients at the same time. A further client takes the place of the one that has
 * spent the longest time without completing a request, so that silent clients do not keep health
 * checks out. If all of them are being answered, the new client gets 503. A request that is not
 * complete within `request_time` of its first byte gets 408. A client that does not take its whole
 * answer within `answer_time`, or sends no request for `idle_time`, is closed.
 *
 * It keeps serving while the relay drains, so that draining can be watched: close it last.
 */
#ifndef RELAY_ADMIN_HPP
#define RELAY_ADMIN_HPP

#include "admin/control.hpp"
#include "base/host_names.hpp"
#include "stats/snapshot.hpp"
#include "wire/http.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

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
	/* Longer than Prometheus' default scrape interval of a minute. */
	std::chrono::nanoseconds idle_time = std::chrono::seconds(90);
};

class admin_server
{
public:
	/* Listens on the address. mode: as for listen_at(). On failure, why has the reason. The
	 * source must outlive the server. May park. */
	static std::unique_ptr<admin_server> open(const snapshot_source &source,
						  const std::string &listen, int mode,
						  std::string &why,
						  const admin_limits &limits = {});

	/* The same on a listening socket that was inherited from another process. */
	admin_server(const snapshot_source &source, sn::tcp_listener listener,
		     const admin_limits &limits = {});
	admin_server(const admin_server &) = delete;
	admin_server &operator=(const admin_server &) = delete;

	/* Sets the names under which the server answers, besides IP addresses and localhost. A
	 * client of a Unix socket may use any name. May be called at any time. */
	void answer_as(host_names names);

	/* Makes it a control server, see above. token: what clients must send; empty: nothing. `by`
	 * must outlive the server. May be called at any time. */
	void let_control(controller *by, std::string token);

	/* The bound address, with the port that the system chose. */
	const std::string &address() const noexcept { return address_; }
	sn_tcp_listener *socket() const noexcept { return listener_.get(); }

	/* Serves, in tasks of its own, until close(). Once. */
	void start();

	/*
	 * Accepts the clients that have already connected, and closes the listener. Each client
	 * gets one more answer, and is closed. Does not wait. close() must still be called.
	 */
	void retire() noexcept;

	/*
	 * Closes the listener, whose socket another process has too, which accepts the clients of
	 * its backlog. A client that is being answered gets its answer; the others are closed, as
	 * they would get that of the wrong process. Does not wait. close() must still be called.
	 */
	void hand_over() noexcept;

	/* After retire() or hand_over(): whether all clients have gone. */
	bool over() noexcept;

	/* Ends every connection, and waits for its tasks to end. Call it only after start(). May
	 * park. */
	void close();

private:
	struct answer;
	class connection;

	bool is_open() const noexcept
	{
		return !stopping_.load(std::memory_order_relaxed) &&
		       !retiring_.load(std::memory_order_relaxed);
	}
	void serve();
	void stop_accepting();
	void send_away_all() noexcept;
	void admit(sn::tcp client);
	void serve_client(connection &with);
	bool is_own(const std::string &host);
	bool is_allowed(const http_request &request);
	controller *control_by();
	answer answer_to(const http_request &request, const requester &by);

	const snapshot_source &source_;
	const admin_limits limits_;
	sn::tcp_listener listener_;
	std::string address_;
	std::atomic<bool> stopping_{false};
	std::atomic<bool> retiring_{false};
	std::atomic<bool> handed_over_{false}; /* set before retiring_ */
	std::atomic<bool> closed_{false};      /* by the accepting task, with the listener */
	sn::task<void> accepting_;
	sn::wait_group serving_;
	std::mutex lock_; /* guards the fields below; never held while parked */
	host_names names_;
	controller *control_by_ = nullptr;
	std::string token_;
	std::list<connection *> connections_;
	std::size_t staying_ = 0; /* connections that send_away() has not closed */
};

} // namespace relay

#endif
