/* SPDX-License-Identifier: MIT */
/*
 * The TLS contexts of the configuration in effect, one for each listener and group that has the key
 * `tls`. While the relay serves, this reads their files again when they change, warns of
 * certificates that expire, and renews the keys of tickets.
 *
 * The contexts of a new configuration are made before it takes effect, by make(), and use() puts
 * them in use.
 */
#ifndef RELAY_TLS_CONTEXTS_HPP
#define RELAY_TLS_CONTEXTS_HPP

#include "base/in_time.hpp"
#include "config/config.hpp"
#include "stats/snapshot.hpp"
#include "tls/tls_context.hpp"
#include "tls/tls_tickets.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace relay
{

/* The files of one configuration, where there is TLS that has no context yet. */
struct tls_reading {
	std::vector<tls_files> listeners; /* parallel to the configuration's */
	std::vector<tls_files> groups;
};

/* The contexts of one configuration; null where there is no TLS. */
struct tls_set {
	std::vector<std::shared_ptr<tls_context>> listeners; /* parallel to the configuration's */
	std::vector<std::shared_ptr<tls_context>> groups;

	std::vector<std::shared_ptr<tls_context>> all() const;
};

class tls_contexts
{
public:
	/* Takes over the ticket keys of the process that hands over. Call it before there are
	 * threads. */
	void take_over() { tickets_.take_over(); }

	tls_tickets &tickets() noexcept { return tickets_; }
	const tls_tickets &tickets() const noexcept { return tickets_; }

	/*
	 * Reads the files of a configuration, and makes its contexts of them. make() returns false
	 * if the files of a context cannot be used; why has the reason. A context in use with the
	 * same settings is kept, unless reread is true. Do not call these in a task: read() blocks
	 * on the file system, and needs a limit of time; make() takes
	 * seconds for thousands of certificates, and of the file system it asks only whether a
	 * folder of authorities is one.
	 */
	tls_reading read(const config &of, bool reread) const;
	bool make(const config &of, bool reread, tls_reading read, tls_set &into, std::string &why);

	/* Puts these contexts in use. which: tls_set::all(), made by the caller before, so that
	 * nothing can fail here. */
	void use(std::vector<std::shared_ptr<tls_context>> which) noexcept;

	/*
	 * Reads files that have changed, emits events for these and for certificates that expire
	 * soon, and renews the ticket keys once a day. To be called every few seconds, by one task
	 * at a time. May park.
	 */
	void look();

	/* For snapshots. Any task. */
	std::vector<certificate_snapshot> certificates() const;

private:
	using list = std::vector<std::shared_ptr<tls_context>>;

	/* What a look at a context's files has found. */
	struct finding {
		std::shared_ptr<tls_context> of;
		tls_context::seen is{};
		std::string why{};
	};
	/* The findings that were not reported yet. A call may add one after its time. */
	struct findings {
		std::mutex lock;
		std::list<finding> all;
	};

	list now() const;
	template <class Each>
	std::shared_ptr<tls_context> kept(const Each &each, bool reread) const;
	void renew_tickets(const list &which, std::chrono::seconds now) noexcept;
	void look_at_files(const list &which);
	void tell_findings(const list &which) noexcept;
	void look_at_dates(const list &which, std::chrono::seconds now);

	tls_tickets tickets_;
	mutable std::mutex lock_; /* guards in_use_ */
	list in_use_;
	/* For look() only: when the last event for a certificate was emitted, by context and
	 * file. */
	std::map<std::string, std::chrono::seconds> told_;
	turn_of_calls looking_; /* while a thread reads a context's files */
	std::size_t next_ = 0;  /* for look() only: where the next look begins */
	const std::shared_ptr<findings> found_ = std::make_shared<findings>();
};

/* Returns what is wrong with the TLS files of a configuration, one line each. warnings: what may
 * be wrong soon. now: since 1970. Blocks on the file system, so do not call it in a task. */
std::vector<std::string> tls_problems(const config &of, std::chrono::seconds now,
				      std::vector<std::string> &warnings);

/* How long before its end a certificate should be replaced: two weeks, or a quarter of its
 * validity period if that is less. */
std::chrono::seconds tls_warning_time(const tls_certificate_info &of) noexcept;

} // namespace relay

#endif
