/* SPDX-License-Identifier: MIT */
/*
 * A configuration that is about to take effect. Until commit() has returned, nothing that exists
 * has changed. A change that is discarded closes the listeners that it has opened.
 */
#ifndef RELAY_CHANGE_HPP
#define RELAY_CHANGE_HPP

#include "backends/registry.hpp"
#include "config/config.hpp"
#include "server/serving.hpp"
#include "sessions/session.hpp"
#include "stats/events.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace relay
{

class change
{
public:
	/* reread: whether to read files again that the configuration names, such as
	 * certificates. */
	change(shared &all, serving &now, std::shared_ptr<const config> settings, bool reread)
	    : all_(all), serving_(now), open_(now.open), settings_(std::move(settings)),
	      reread_(reread), fault_(fault_of(all)), counts_(all.registry),
	      pools_(settings_, counts_)
	{
	}
	change(const change &) = delete;
	change &operator=(const change &) = delete;

	/* Reads certificates, opens the missing listeners, and makes a route for each listener.
	 * If one of these fails, reports it and returns false. May park. */
	bool prepare();

	const listeners &opened() const { return opened_; }

	/* Prints the addresses on stdout, for users that ask for port 0. Errors are ignored,
	 * because the relay serves with a closed stdout, too. */
	void announce() const;

	/*
	 * Starts the new listeners and checks, switches the listeners that stay to this
	 * configuration and retires those that it does not have. If something cannot be started,
	 * stops what was started, and throws. May park.
	 */
	void commit();

	/* Lets clients into the new listeners, which take none before that. To be called after
	 * commit(), when nothing that could end the process can fail any more. */
	void let_in() noexcept;

private:
	std::unique_ptr<listening> open(const listener_config &settings, std::string &why);
	bool make_tls();
	void await_first_checks() const;
	void start(watchers &watching);
	void retire(watchers &which) noexcept;

	shared &all_;
	serving &serving_;
	listeners &open_;
	const std::shared_ptr<const config> settings_;
	const bool reread_;
	const event_kind fault_;
	registry::generation counts_;
	tls_set tls_;
	list_files::set lists_;
	std::vector<std::shared_ptr<tls_context>> contexts_; /* all of the configuration's */
	pools pools_;
	listeners opened_;
	std::vector<listening *> replaced_; /* to retire; new listeners share their sockets */
	std::vector<std::pair<listening *, std::shared_ptr<route>>> staying_;
};

} // namespace relay

#endif
