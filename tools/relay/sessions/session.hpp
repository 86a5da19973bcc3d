/* SPDX-License-Identifier: MIT */
/*
 * A session: the connection of a client, the one to a backend, and the task that relays between
 * them. Small messages take that task alone; once a direction needs more, sn_relay() starts a
 * second task for the other direction.
 *
 * How it ends:
 *  - In good order. When a stream ends, the other side's stream is ended too (half-close). When
 *    both have ended, both connections are closed.
 *  - With a reset by either side, or any failure that loses bytes: both connections are reset, so
 *    that neither peer takes a broken stream for a complete one. A direction that has finished
 *    keeps watching the side that it read from, so that a reset after a half-close is passed on
 *    too.
 *  - When no byte moved for the idle timeout: both are closed.
 *  - When its lifetime is over, when its backend goes down and `on_down` says so, or when it is
 *    cut: both are reset.
 *
 * The first failure, timeout, end of the lifetime or cut decides how the session ends: it cancels
 * both connections, which ends sn_relay(). Only then are the connections closed.
 *
 * If an endpoint (an address of a backend) cannot be connected to, it is skipped and another one of
 * the group is chosen, until none is left or the connect timeout, which covers all of them, is
 * over. While another endpoint is left to try, an attempt may take `attempt_timeout`, or half of
 * the remaining time, so that a dead machine does not use up all of the time.
 *
 * If all endpoints refuse, or cannot be reached, the session waits for `retry_delay`, which doubles
 * each time, and begins again, because a backend that restarts is away only for a moment. It does
 * so up to `retries` times, within the connect timeout; but not after a timeout, because the client
 * has already waited.
 *
 * If every backend is full, the session waits in the group's queue (queue.hpp). The connect timeout
 * does not include that time. A session that waits there, or before it tries again, notices when
 * its client goes away (client_wait.hpp). While it connects, only a reset of the client's
 * connection ends that (attempts.hpp).
 *
 * If the listener inspects the beginning of connections (opening.hpp), that comes first: it
 * determines the client's address, and the name that the client asks for. The bytes that were read
 * for this are sent to the backend before anything else, after the relay's own PROXY header if the
 * group asks for one.
 *
 * If clients' TLS ends at the listener, the handshake follows, with the same deadline. If the
 * group's backends have TLS, their handshake is a part of connecting, after the PROXY header: a
 * backend whose certificate is refused counts as one that could not be connected to. A TLS stream
 * that ends without close_notify has failed, and so the other side is reset.
 *
 * Connections to backends may have been made ahead of clients (ready.hpp, session_ready.cc).
 *
 * A backend's name is looked up in the background (names.hpp). Connections use the latest result.
 */
#ifndef RELAY_SESSION_HPP
#define RELAY_SESSION_HPP

#include "backends/balance.hpp"
#include "backends/ready.hpp"
#include "backends/registry.hpp"
#include "base/client_wait.hpp"
#include "base/ip.hpp"
#include "config/config.hpp"
#include "config/list_files.hpp"
#include "config/tls_contexts.hpp"
#include "handover/handover.hpp"
#include "handover/inherited.hpp"
#include "sessions/attempts.hpp"
#include "sessions/udp_addresses.hpp"
#include "stats/access_log.hpp"
#include "stats/counters.hpp"
#include "stats/session_filter.hpp"
#include "stats/sessions.hpp"
#include "tls/tls_context.hpp"
#include "wire/proxy_header.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace relay
{

/* Shared by all sessions of the process. Outlives them. */
struct shared {
	/* The settings in effect. Only the task that has the turn (live_config.hpp) uses them;
	 * sessions use those of their route. */
	std::shared_ptr<const config> settings;
	/* The file from which the settings were read; if empty, they cannot be read again. */
	std::string config_file{};
	relay::counters counters{};
	relay::sessions sessions{};
	relay::attempts attempts{};
	ready_stock stock{sessions};
	relay::registry registry{};
	current_log access_log{};
	/* Only the task that has the turn uses it. */
	relay::inherited inherited{};
	tls_contexts tls{};
	list_files lists{};
	relay::program program{};
	std::optional<late_reloads> late{}; /* after a handover */
	relay::udp_addresses udp_addresses{};
};

/*
 * Shared by the sessions of one listener for as long as one configuration is in effect. A reload
 * gives the listener another route. Each session keeps the one under which it was accepted, so the
 * last of these sessions frees the old configuration.
 */
struct route {
	route(std::shared_ptr<const config> of, const listener_config &says,
	      std::shared_ptr<pool> for_others, std::vector<std::shared_ptr<pool>> for_groups,
	      std::vector<std::shared_ptr<pool>> for_protocols,
	      std::shared_ptr<const tls_context> ends_tls,
	      std::shared_ptr<listener_counters> counted);

	/* Uses the lists of these settings from now on. The lists of names lead to the same groups
	 * as before. Any task. */
	void use_lists(std::shared_ptr<const listener_config> read) noexcept;

	/* Whether refuses() depends on the client's address. */
	bool tells_sources_apart() const noexcept;

	/* Whether the lists refuse the client: the part of refuses() that counts nothing. */
	bool denies(const ip_address &client) const noexcept;

	/*
	 * The reason to close a client with this address, if there is one. Otherwise the client
	 * counts as a connection of that source for as long as the ticket lives.
	 */
	std::optional<termination> refuses(const ip_address &client, source_ticket &counted,
					   bool is_new = true) const;

	/*
	 * The pool for a TLS client that asks for this name (empty: for no name) and offers these
	 * protocols (as tls_hello has them), of which the first that has a pool decides before the
	 * name does. If several names match, the longest wins. Null if no pool matches.
	 */
	pool *pool_for(std::string_view server_name, std::string_view protocols) const noexcept;

	const std::shared_ptr<const config> whole; /* owns all settings that the route uses */
	const listener_config &settings;
	const std::shared_ptr<pool>
		others; /* for names that are not in sni; null: these clients are refused */
	/* The pools of groups that names lead to, parallel to the configuration's groups; null for
	 * other groups. */
	const std::vector<std::shared_ptr<pool>> by_group;
	const std::vector<std::shared_ptr<pool>> by_protocol; /* parallel to settings.alpn */
	const std::shared_ptr<const tls_context> tls; /* null: clients' TLS does not end here */
	const bool makes_handshakes; /* with clients or backends; tasks then need tls_stack */
	const std::shared_ptr<listener_counters> counts;

private:
	std::shared_ptr<const listener_config> lists() const noexcept;

	mutable std::mutex lock_;                      /* guards lists_ */
	std::shared_ptr<const listener_config> lists_; /* null: `settings` has them */
};

/* The client's address, with a mapped IPv4 address as IPv4; empty if it is gone. Throws
 * std::bad_alloc. */
inline std::string address_of(const sn::tcp &client)
{
	return without_mapping(client.peer_address().value_or(""));
}

class session final : private sessions::entry
{
public:
	/* Takes over the reservations that the caller has made in all.sessions and in
	 * via->counts->active. Once constructed, the session can be cut. */
	session(shared &all, std::shared_ptr<route> via, sn::tcp client,
		source_ticket counted) noexcept;
	session(const session &) = delete;
	session &operator=(const session &) = delete;

	/* Closes or resets both connections, depending on how the session ended. */
	~session();

	/* Connects, and copies until the session is over. Called once, in a task. */
	void run();

private:
	enum class cause {
		none,     /* still running, or it never had a backend */
		finished, /* in good order; final */
		failure,
		idle,
		lifetime,
		backend_down,
		killed,
		cut,
	};

	void serve();
	bool receive_opening();
	bool receive_proxy(sn::deadline until);
	bool receive_tls(sn::deadline until);
	bool find_pool(std::string_view protocols);
	bool fail_opening(termination why, std::string text);
	bool connect();
	std::uint64_t client_hash();
	void follow(std::shared_ptr<pool> next) noexcept;
	bool await_names(sn::deadline until);
	enum class placing { given, none_left, over };
	placing take_place(const tried_endpoints &tried, ticket &into);
	placing wait_in_queue(queued_choice &mine);
	placing stop_waiting(queued_choice &mine, woken why);
	enum class retrying { again, no, over };
	void tell_not_waiting(const tried_endpoints &tried, const char *limit,
			      const char *beside) const;
	retrying wait_to_retry(const std::error_code &error, const endpoint &at, unsigned times,
			       sn::deadline until);
	woken wait_beside(bell &rings, sn::deadline until);
	std::string opening_for();
	void count_left_out(std::size_t bytes) noexcept;
	std::optional<ready_end> judge(ready_connection &made, const endpoint &at);
	sn::tcp take_ready(ticket &next, sn::deadline until);
	enum class ready_one { kept, lost, over };
	ready_one watch_ready_one();
	bool wait_for_either(bell &rings, sn::deadline until);
	ready_one lose_ready_one();
	enum class sending { done, again, over };
	sending send_opening();
	sn::result<sn::tcp> try_to_connect(ticket &next, sn::deadline until, bool has_other);
	void leave_unanswered();
	first_words whose_first_words() const noexcept;
	sn::deadline end_of_attempt(sn::deadline until) const noexcept;
	sn::result<sn::tcp> connect_to(endpoint &at, sn::deadline until, bool has_other);
	std::error_code secure(sn::tcp &backend, const endpoint &at, sn::deadline until);
	bool has_tls() const noexcept;
	template <class Call>
	auto with_tls_stack(Call call);
	void relay_both();
	void end(cause why) noexcept;
	void cut() noexcept override;
	bool settle(sn::clock::time_point now) noexcept override;
	bool lose_backend(const endpoint &which) noexcept override;
	bool kill(const session_filter &which) noexcept override;
	bool has_client(const session_filter &which) const;
	void probe_backend(int fd) noexcept;
	void outlive() noexcept;
	void record_end() noexcept;

	shared &all_;
	std::shared_ptr<route> via_; /* until the end */
	sn::tcp client_;
	source_ticket source_;
	pool *to_ = nullptr;          /* one of the route's; set by receive_opening() */
	std::shared_ptr<pool> later_; /* the pool, if it is one of a later configuration */
	std::optional<proxy_header> proxy_;
	std::string hello_;            /* sent to the backend first */
	std::optional<tls_facts> tls_; /* of the handshake with the client */
	std::uint64_t passed_ = 0;
	ticket chosen_;             /* empty until the backend is connected */
	sn::tcp backend_;           /* set under the sessions' lock: cut(), settle() use it */
	bell *rings_ = nullptr;     /* set while it waits; under the sessions' lock */
	bool is_settled_ = false;   /* under that lock */
	bool is_ready_one_ = false; /* the connection was made ahead, and nothing was sent */
	ticket kept_;               /* the place of a lost connection */
	bool is_replacing_ = false; /* this connection replaces a lost one */
	std::atomic<cause> cause_{cause::none};
	std::atomic<bool> is_over_{false}; /* set by end() for a cause but `finished` */
	bool lost_bytes_ = false;

	/* For the counters and the access log. */
	const sn::clock::time_point began_ = sn::now();
	sn::clock::time_point connected_{};
	std::chrono::nanoseconds queued_{-1};         /* the wait for a place; -1: none */
	std::atomic<std::int64_t> first_byte_ns_{-1}; /* after connected_ */
	termination ended_ = termination::no_memory;  /* the initial value: no task */
	std::string client_address_;                  /* for the log, and for balancing by source */
	std::string proxy_address_;                   /* the address of the proxy; for the log */
	std::string sni_;
	sn::relayed done_{};
	std::string error_;
	std::string refusal_; /* why the last handshake with a backend has failed */
	std::string id_;      /* of the connection, if it is sent to backends */
	std::shared_ptr<const endpoint> last_tried_;
};

} // namespace relay

#endif
