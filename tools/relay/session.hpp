/* SPDX-License-Identifier: MIT */
/*
 * A session: a client's connection, its backend's, and the task that relays between them, which has a
 * second one only while there is more to do than pass on small messages (sn_relay()).
 *
 * How it ends:
 *  - In good order. A direction that reads to the end of its stream ends the other side's stream
 *    (half-close); when both have, both connections are closed.
 *  - With a reset of either side, or any failure that loses bytes: both are reset, so that nobody
 *    takes a broken stream for a complete one. A direction that has finished keeps watching the
 *    side that it read from, so that a reset after a half-close is passed on too.
 *  - When no byte moved for the idle timeout: both are closed.
 *  - When it was open for its lifetime, or is cut: both are reset.
 * The first of the last four that happens decides, and cancels both connections, which ends
 * the relay. Only then are the connections closed.
 *
 * A backend that cannot be connected to is left out, and another one of the group chosen, until
 * none is left or the connect timeout, which is for all of them, is over. One that is silent may
 * take half of what is left of it while there is another to try, so that a machine that is gone
 * does not use up all the time.
 *
 * Where the listener looks at the beginning of connections (opening.hpp), that comes first: whose the
 * connection is, and whom it asks for. What was read of it is sent to the backend before anything
 * else, after a PROXY header of our own where the group asks for one.
 *
 * A backend's name is looked up in the background (names.hpp): a connection takes what is known.
 */
#ifndef RELAY_SESSION_HPP
#define RELAY_SESSION_HPP

#include "access_log.hpp"
#include "balance.hpp"
#include "book.hpp"
#include "config.hpp"
#include "counters.hpp"
#include "handover.hpp"
#include "inherited.hpp"
#include "proxy_header.hpp"
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

/* What all sessions of the process share. Outlives them. */
struct shared {
	/* What is in effect; changed by the task of serve() only. Sessions use their lane's. */
	std::shared_ptr<const config> settings;
	/* Where it was read from; empty: nowhere, so that it cannot be read again. */
	std::string config_file{};
	relay::counters counters{};
	relay::sessions sessions{};
	relay::book book{};
	current_log access_log{};
	/* The task of serve() only. */
	relay::inherited inherited{};
	relay::program program{};
};

/*
 * What sessions of one listener share for as long as one configuration is in effect. A reload gives
 * the listener another one; each session keeps that which it was accepted with, so the last of them
 * frees what the old configuration had.
 */
struct lane {
	lane(std::shared_ptr<const config> of, const listener_config &says,
	     std::shared_ptr<pool> for_others, std::vector<std::shared_ptr<pool>> for_names,
	     std::shared_ptr<listener_counters> counted)
	    : whole(std::move(of)), settings(says), others(std::move(for_others)),
	      by_name(std::move(for_names)), counts(std::move(counted))
	{
	}

	/*
	 * Why a client of that address is to be closed, if it is; otherwise it counts as that
	 * source's for as long as the ticket lives.
	 */
	std::optional<termination> refuses(const ip_address &client, source_ticket &counted) const;

	/*
	 * Whose backends a TLS client that asks for that name gets, or for none when it is empty: of
	 * names that fit, the longest. None when there is nobody.
	 */
	pool *route(std::string_view server_name) const noexcept;

	const std::shared_ptr<const config> whole; /* has the settings, the pool's too */
	const listener_config &settings;
	const std::shared_ptr<pool>
		others; /* none: with sni, who asks for no name of it has none */
	const std::vector<std::shared_ptr<pool>> by_name; /* as settings.sni */
	const std::shared_ptr<listener_counters> counts;
};

class session final : private sessions::entry
{
public:
	/* Can be cut from here on. Takes over what was reserved for it in all.sessions and
	 * in via->counts->active. */
	session(shared &all, std::shared_ptr<lane> via, sn::tcp client,
		source_ticket counted) noexcept;
	session(const session &) = delete;
	session &operator=(const session &) = delete;

	/* Closes or resets, as the session has ended. */
	~session();

	/* Connects, copies until the session is over. Once; in a task. */
	void run();

private:
	enum class cause {
		none,     /* it goes on, or never had a backend */
		finished, /* in good order: nothing changes that any more */
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
	void outlive() noexcept;
	void tell() noexcept;

	shared &all_;
	std::shared_ptr<lane> via_; /* until the end */
	sn::tcp client_;
	source_ticket source_;
	pool *to_ = nullptr; /* of the lane; set by receive_opening() */
	std::optional<proxy_header> proxy_;
	std::string hello_; /* to be passed on first */
	std::uint64_t passed_ = 0;
	ticket chosen_;           /* none before there is a connection */
	sn::tcp backend_;         /* set under the lock of the list, as cut() and settle() use it */
	bool is_settled_ = false; /* under that lock */
	std::atomic<cause> cause_{cause::none};
	bool lost_bytes_ = false;

	/* For telling how it was. */
	const sn::clock::time_point began_ = sn::now();
	sn::clock::time_point connected_{};
	std::atomic<std::int64_t> first_byte_ns_{-1}; /* after connected_ */
	termination ended_ = termination::no_memory;  /* was there none for its task */
	std::string client_address_; /* for the log, and for who chooses by source */
	std::string proxy_address_;  /* whose header told the client's; for the log */
	std::string sni_;
	sn::relayed done_{};
	std::string error_;
	const backend *last_tried_ = nullptr;
};

} // namespace relay

#endif
