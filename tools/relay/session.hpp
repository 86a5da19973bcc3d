/* SPDX-License-Identifier: MIT */
/*
 * A session: a client's connection, the backend's, and the task that relays between them. Small
 * messages take that task alone; once a direction needs more, sn_relay() starts a second task for
 * the other direction.
 *
 * How it ends:
 *  - In good order. When a stream ends, the other side's stream is ended too (half-close). When
 *    both have ended, both connections are closed.
 *  - With a reset of either side, or any failure that loses bytes: both connections are reset, so
 *    that neither peer takes a broken stream for a complete one. A direction that has finished
 *    keeps watching the side that it read from, so that a reset after a half-close is passed on
 *    too.
 *  - When no byte moved for the idle timeout: both are closed.
 *  - When its lifetime is over, or it is cut: both are reset.
 *
 * The first failure, timeout, end of the lifetime or cut decides: it cancels both connections,
 * which ends the relay. Only then are the connections closed.
 *
 * If a backend cannot be connected to, it is skipped and another one of the group is chosen, until
 * none is left or the connect timeout, which covers all of them, is over. While another backend is
 * left to try, one that does not answer may take half of the remaining time, so that a dead machine
 * does not use up all of it.
 *
 * If the listener inspects the beginning of connections (opening.hpp), that comes first: it
 * determines the client's address, and the name that the client asks for. The bytes that were read
 * for this are sent to the backend before anything else, after our own PROXY header if the group
 * asks for one.
 *
 * A backend's name is looked up in the background (names.hpp). Connections use the latest result.
 */
#ifndef RELAY_SESSION_HPP
#define RELAY_SESSION_HPP

#include "access_log.hpp"
#include "balance.hpp"
#include "config.hpp"
#include "counters.hpp"
#include "handover.hpp"
#include "inherited.hpp"
#include "proxy_header.hpp"
#include "registry.hpp"
#include "sessions.hpp"

#include <sennit/sennit.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace relay
{

/* Shared by all sessions of the process. Outlives them. */
struct shared {
	/* In effect now; changed only by the task of serve(). Sessions use their route's. */
	std::shared_ptr<const config> settings;
	/* The file that it was read from; empty: none, so it cannot be read again. */
	std::string config_file{};
	relay::counters counters{};
	relay::sessions sessions{};
	relay::registry registry{};
	current_log access_log{};
	/* Used only by the task of serve(). */
	relay::inherited inherited{};
	relay::program program{};
};

/*
 * Shared by the sessions of one listener for as long as one configuration is in effect. A reload
 * gives the listener another route. Each session keeps the one under which it was accepted, so the
 * last of these sessions frees the old configuration.
 */
struct route {
	route(std::shared_ptr<const config> of, const listener_config &says,
	      std::shared_ptr<pool> for_others, std::vector<std::shared_ptr<pool>> for_names,
	      std::shared_ptr<listener_counters> counted)
	    : whole(std::move(of)), settings(says), others(std::move(for_others)),
	      by_name(std::move(for_names)), counts(std::move(counted))
	{
	}

	/* Whether refuses() needs an address at all. */
	bool tells_sources_apart() const noexcept;

	/*
	 * The reason to close a client with this address, if there is one. Otherwise the client
	 * counts as a connection of that source for as long as the ticket lives.
	 */
	std::optional<termination> refuses(const ip_address &client, source_ticket &counted) const;

	/*
	 * The pool for a TLS client that asks for this name (empty: for no name). If several names
	 * match, the longest wins. Null if no pool matches.
	 */
	pool *pool_for(std::string_view server_name) const noexcept;

	const std::shared_ptr<const config> whole; /* owns the settings, and the pools' */
	const listener_config &settings;
	const std::shared_ptr<pool>
		others; /* for names that are not in sni; null: these clients are refused */
	const std::vector<std::shared_ptr<pool>> by_name; /* parallel to settings.sni */
	const std::shared_ptr<listener_counters> counts;
};

class session final : private sessions::entry
{
public:
	/* Can be cut from here on. Takes over its reservations in all.sessions and in
	 * via->counts->active. */
	session(shared &all, std::shared_ptr<route> via, sn::tcp client,
		source_ticket counted) noexcept;
	session(const session &) = delete;
	session &operator=(const session &) = delete;

	/* Closes or resets both connections, depending on how the session ended. */
	~session();

	/* Connects, and copies until the session is over. Once; in a task. */
	void run();

private:
	enum class cause {
		none,     /* still running, or it never had a backend */
		finished, /* in good order; final */
		failure,
		idle,
		lifetime,
		cut,
	};

	void serve();
	bool receive_opening();
	bool fail_opening(termination why, std::string text);
	bool connect();
	std::string opening_for() const;
	bool send_opening();
	first_words whose_first_words() const noexcept;
	sn::result<sn::tcp> connect_to(backend &at, std::uint64_t source, sn::deadline until);
	void relay_both();
	void end(cause why) noexcept;
	void cut() noexcept override;
	bool settle(sn::clock::time_point now) noexcept override;
	void probe_backend(int fd) noexcept;
	void outlive() noexcept;
	void record_end() noexcept;

	shared &all_;
	std::shared_ptr<route> via_; /* until the end */
	sn::tcp client_;
	source_ticket source_;
	pool *to_ = nullptr; /* of the route; set by receive_opening() */
	std::optional<proxy_header> proxy_;
	std::string hello_; /* sent to the backend first */
	std::uint64_t passed_ = 0;
	ticket chosen_;           /* empty until the backend is connected */
	sn::tcp backend_;         /* set under the sessions' lock, as cut() and settle() use it */
	bool is_settled_ = false; /* under that lock */
	std::atomic<cause> cause_{cause::none};
	bool lost_bytes_ = false;

	/* For the counters and the access log. */
	const sn::clock::time_point began_ = sn::now();
	sn::clock::time_point connected_{};
	std::atomic<std::int64_t> first_byte_ns_{-1}; /* after connected_ */
	termination ended_ = termination::no_memory;  /* if its task cannot be started */
	std::string client_address_;                  /* for the log, and for balancing by source */
	std::string proxy_address_; /* of the proxy that sent the header; for the log */
	std::string sni_;
	sn::relayed done_{};
	std::string error_;
	const backend *last_tried_ = nullptr;
};

} // namespace relay

#endif
