/* SPDX-License-Identifier: MIT */
/*
 * The TLS contexts of the configuration in effect, one for each listener and group that has the key
 * `tls`, and what happens to them while the relay serves: their files change, their certificates
 * expire, and the keys of tickets are renewed.
 *
 * A configuration that is about to take effect makes its contexts first, and they are in use from
 * use() on.
 */
#ifndef RELAY_TLS_CONTEXTS_HPP
#define RELAY_TLS_CONTEXTS_HPP

#include "base/in_time.hpp"
#include "config/config.hpp"
#include "stats/snapshot.hpp"
#include "tls/tls_context.hpp"
#include "tls/tls_tickets.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace relay
{

/* The contexts of one configuration; null where there is no TLS. */
struct tls_set {
	std::vector<std::shared_ptr<tls_context>> listeners; /* parallel to the configuration's */
	std::vector<std::shared_ptr<tls_context>> groups;

	std::vector<std::shared_ptr<tls_context>> all() const;
};

class tls_contexts
{
public:
	/* Takes over the keys of the process that hands over. Before there are threads. */
	void take_over() { tickets_.take_over(); }

	tls_tickets &tickets() noexcept { return tickets_; }
	const tls_tickets &tickets() const noexcept { return tickets_; }

	/*
	 * Makes the contexts of a configuration. False if the files of one cannot be used; why has
	 * the reason. reread: those that are in use with the same settings are made again, too.
	 * Blocks on the file system, so not in a task.
	 */
	bool make(const config &of, bool reread, tls_set &into, std::string &why);

	/* From now on these are in use. which: tls_set::all(), made before, so that nothing can
	 * fail here. */
	void use(std::vector<std::shared_ptr<tls_context>> which) noexcept;

	/*
	 * To be called every few seconds, by one task at a time: reads files that have changed,
	 * emits the events of that and of certificates that expire soon, and renews the keys of
	 * tickets once a day. May park.
	 */
	void look();

	/* For snapshots. Any task. */
	std::vector<certificate_snapshot> certificates() const;

private:
	using list = std::vector<std::shared_ptr<tls_context>>;

	list now() const;
	void look_at_files(const list &which);
	void look_at_dates(const list &which, std::chrono::seconds now);

	tls_tickets tickets_;
	mutable std::mutex lock_;
	list in_use_;
	/* For look(): when an event of a certificate was emitted last, by its context and file. */
	std::map<std::string, std::chrono::seconds> told_;
	turn_of_calls looking_; /* at the files of a context */
};

/* Returns what is wrong with the TLS files of a configuration, one line each. warnings: what may be
 * wrong soon. now: since 1970. Blocks on the file system, so not in a task. */
config_errors tls_problems(const config &of, std::chrono::seconds now, config_errors &warnings);

/* How long before its end a certificate is to be replaced: two weeks, or a quarter of its time if
 * that is less. */
std::chrono::seconds tls_warning_time(const tls_certificate_info &of) noexcept;

} // namespace relay

#endif
