/* SPDX-License-Identifier: MIT */
/*
 * A UDP session: the datagrams of one client, and the answers of one endpoint of a backend.
 *
 * Each session has a socket of its own, connected to the endpoint, because only that socket's port
 * distinguishes the answers for its client from those for other clients. A session therefore costs
 * a descriptor, and a task that waits there. The listener's task passes on the client's datagrams
 * (pass_on()). The session's own task passes on the answers, through the listener's socket, from
 * the address to which the client sent. Datagrams of a session are passed on in the order in which
 * they come. Each datagram is passed on once and whole, or is dropped, and the reason is counted
 * (udp_drop.hpp).
 *
 * How it ends:
 *  - When nothing has come from either side for the idle timeout, or, while the relay stops, for a
 *    second if that is shorter.
 *  - When each of the client's datagrams that were passed on has got the configured number of
 *    answers. A session that has passed none on stays until it is idle. Otherwise each datagram
 *    that comes while the bandwidth is used up would begin and end one.
 *  - When the network reports that the backend is out of reach (below), or there is no route. That
 *    counts as a failure to connect (balance.hpp), and the client's next datagram begins a session
 *    with the backend that is chosen then. If it was a send that failed, the same datagram does
 *    that.
 *  - When its lifetime is over, when its backend goes down and `on_down` says so, or when it is
 *    cut.
 * Neither side is notified, because UDP has no means for that.
 *
 * The first answer counts as a successful connect, because connecting a UDP socket proves nothing.
 *
 * Reports of the network (ICMP). As with connections, what is reported before the first answer is
 * final, also that a host or a network is unreachable; after that answer only what the system
 * itself takes for final is: that the backend refuses datagrams, or that they are prohibited. Never
 * final is what concerns one datagram alone: that it is too large for the next link, or that some
 * of its fragments were lost. A time to live that ran out on the way is final: it means a loop of
 * routes.
 *
 * The system returns reports that may pass only on a socket that keeps errors (SN_UDP_ERRORS), so
 * sockets do that until the first answer has been passed on. If that ends the session, nothing has
 * to be changed. The kept errors take room of the receive buffer, so they are removed: together
 * with the socket, after the first answer, or, if they end nothing, when a call returns one. There
 * are never more than fit into that buffer. Whichever task removes reports acts on them, because
 * the error of one report may be returned to one task, and the report itself be removed by the
 * other. The system accepts only reports that quote the addresses and ports of the session's
 * socket. Whoever can send forged ones, and knows or guesses the local port, can therefore end the
 * session and have it counted as a failure. Reports of a refused port allow that as well, at any
 * time.
 *
 * A socket that keeps errors also learns when a full queue or a rule of this machine drops a
 * datagram (ENOBUFS). Until the first answer such datagrams are therefore counted as not sent.
 * After it the system says nothing, and they count as passed on.
 */
#ifndef RELAY_UDP_SESSION_HPP
#define RELAY_UDP_SESSION_HPP

#include "sessions/session.hpp"
#include "sessions/udp_port.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace relay
{

/* The largest datagram and one more byte, so that none is cut. */
inline constexpr std::size_t udp_buffer_size = 65536;

/* A place for a session in the process, and one in the listener. The destructor frees both; the
 * listener's may be freed before that. */
class udp_places
{
public:
	udp_places() = default;
	udp_places(sessions &of_all, std::shared_ptr<listener_counters> of_listener) noexcept
	    : all_(&of_all), listener_(std::move(of_listener))
	{
	}
	udp_places(udp_places &&other) noexcept
	    : all_(std::exchange(other.all_, nullptr)), listener_(std::move(other.listener_))
	{
	}
	udp_places &operator=(udp_places &&) = delete;
	~udp_places()
	{
		if (!all_)
			return;
		leave_listener();
		all_->gone(); /* last: the process may end after it */
	}

	void leave_listener() noexcept
	{
		if (listener_)
			listener_->active.fetch_sub(1, std::memory_order_relaxed);
		listener_.reset();
	}

private:
	sessions *all_ = nullptr;
	std::shared_ptr<listener_counters> listener_;
};

class udp_session final : private sessions::entry
{
public:
	struct parts {
		std::shared_ptr<udp_port> port;
		std::shared_ptr<route> via;
		pool &to; /* of the route */
		udp_key key;
		udp_places places;
		source_ticket source;
		ticket chosen;
		sn::udp backend;
		std::string sni{}; /* that QUIC's hello asks for */
	};

	/* Once constructed, the session can be cut. */
	explicit udp_session(parts of);
	udp_session(const udp_session &) = delete;
	udp_session &operator=(const udp_session &) = delete;
	/* In a task. */
	~udp_session();

	const udp_key &key() const noexcept { return key_; }

	/* A datagram of the client is about to be passed on. Under the port's lock. */
	void asked(std::int64_t now) noexcept
	{
		asked_.fetch_add(1);
		active_at_.store(now, std::memory_order_relaxed);
	}

	/* Whether it has ended, or is about to. */
	bool is_ending() const noexcept
	{
		return ended_.load(std::memory_order_relaxed) != termination::count_;
	}

	/* When the session ends if no datagram comes before that. Under the port's lock. */
	std::int64_t over_at() const noexcept;

	/* Ends it if that time has come; returns false if it has not. Under the port's lock. */
	bool end_if_over(std::int64_t now) noexcept;

	/* Makes the session's task look at over_at() again. */
	void look_again() noexcept
	{
		backend_.set_read_deadline(sn::deadline(std::chrono::nanoseconds(1)));
	}

	/* Passes a datagram of the client on, or counts the reason for dropping it. Returns
	 * false if the backend is out of reach: then the session has ended, and the datagram is
	 * not counted. Only the listener's task calls it. */
	bool pass_on(std::string_view datagram) noexcept;

	/* Frees the places that the limits of the listener, the source and the endpoint count. Any
	 * task may call it, once the session has ended, and before the session leaves the table:
	 * from then on the client's next datagram begins another one. */
	void free_places() noexcept;

	/* Passes the answers on until the session is over, and then leaves the port. Called
	 * once, in a task of its own. */
	void run() noexcept;

private:
	void receive();
	ssize_t receive_in_time(char *buf);
	bool is_past_lifetime(std::int64_t now) const noexcept;
	void wait_until_over();
	bool take(char *buf, std::size_t size);
	bool answer(char *bytes, std::size_t size);
	sn::result<void> send_to_client(char *bytes, std::size_t size);
	void not_asked() noexcept;
	bool has_all_answers() const noexcept;
	bool is_answered() const noexcept
	{
		return first_answer_.load(std::memory_order_relaxed) >= 0;
	}
	termination why_over(std::int64_t now) const noexcept;
	void first_answer() noexcept;
	void ignore_passing_reports() noexcept;
	int take_reports(bool &is_any) noexcept;
	void lose_connection(int error) noexcept;
	bool end(termination why) noexcept;
	void cut() noexcept override { end(termination::cut); }
	bool settle(sn::clock::time_point) noexcept override { return true; }
	bool lose_backend(const endpoint &which) noexcept override;
	bool kill(const session_filter &which) noexcept override;
	void record_end() noexcept;

	/* Members are destroyed from the bottom up, so the places are freed last. */
	udp_places places_;
	const std::shared_ptr<udp_port> port_;
	const std::shared_ptr<route> via_;
	std::mutex freeing_; /* guards what free_places() frees */
	source_ticket source_;
	pool &to_;
	const udp_key key_;
	const std::shared_ptr<endpoint> chosen_;
	ticket place_; /* at the endpoint */
	sn::udp backend_;
	const std::string sni_;
	const std::string header_; /* PROXY header of each datagram; empty: none */
	const std::int64_t began_ = sn_now();

	std::atomic<termination> ended_{termination::count_};
	std::atomic<int> error_{0};
	std::atomic<std::int64_t> active_at_{began_}; /* when the last datagram came */
	/* Datagrams of the client, without those that were dropped. Sequentially consistent, as is
	 * the next, see not_asked(). */
	std::atomic<std::uint64_t> asked_{0};
	std::atomic<std::uint64_t> answered_{0}; /* written by the session's task */
	/* Written by the session's task. The listener's task reads at any time whether it is
	 * set. */
	std::atomic<std::int64_t> first_answer_{-1}; /* after began_ */
	/* The session's task. */
	bool keeps_reports_ = true; /* its socket does */
	std::uint64_t datagrams_to_client_ = 0;
	std::uint64_t bytes_to_client_ = 0;
	/* The listener's task. */
	std::uint64_t datagrams_to_backend_ = 0;
	std::uint64_t bytes_to_backend_ = 0;
};

/* How many datagrams the system has dropped because the socket's receive buffer was full. */
std::uint64_t dropped_by_system(int fd) noexcept;

} // namespace relay

#endif
