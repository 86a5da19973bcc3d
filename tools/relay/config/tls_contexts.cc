/* SPDX-License-Identifier: MIT */
#include "config/tls_contexts.hpp"

#include "base/text.hpp"
#include "stats/events.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <utility>

namespace relay
{
namespace
{

using std::chrono::seconds;

constexpr seconds day = std::chrono::hours(24);

/* TLS can be configured only in a file, and there every listener and group has a name. */
tls_owner owner_of(const listener_config &which)
{
	return {true, which.name};
}

tls_owner owner_of(const group_config &which)
{
	return {false, which.name};
}

/* Certificates may be valid until the year 9999, but a time in nanoseconds ends in 2262. */
std::string text_of(seconds since_1970)
{
	return to_time(std::min(
		since_1970, std::chrono::duration_cast<seconds>(std::chrono::nanoseconds::max())));
}

/* "certificate "a.pem" (www.example.org) has expired at 2026-11-21T09:55:14.000Z", or nothing. */
std::string problem_of(const tls_certificate_info &which, seconds now)
{
	std::string text = which.is_list ? "the revocation list \"" : "the certificate \"";
	text += which.file + '"';
	if (!which.name.empty())
		text += " (" + which.name + ')';
	if (now >= which.not_after)
		return text + " has expired at " + text_of(which.not_after) +
		       (which.is_list ? ", so no certificate of that issuer is taken" : "");
	if (now < which.not_before)
		return text + " is not valid before " + text_of(which.not_before);
	if (which.not_after - now < tls_warning_time(which))
		return text + " expires at " + text_of(which.not_after);
	return "";
}

event_fields fields_of(const tls_context &of)
{
	return {{of.owner().is_listener ? "listener" : "group", of.owner().name}};
}

} // namespace

seconds tls_warning_time(const tls_certificate_info &of) noexcept
{
	return std::min(14 * day, (of.not_after - of.not_before) / 4);
}

std::vector<std::shared_ptr<tls_context>> tls_set::all() const
{
	std::vector<std::shared_ptr<tls_context>> found;
	for (const auto *some : {&listeners, &groups})
		std::ranges::copy_if(*some, std::back_inserter(found),
				     [](const auto &each) { return each != nullptr; });
	return found;
}

/* The context in use for a listener or group with TLS, or null if another one has to be made. */
template <class Each>
std::shared_ptr<tls_context> tls_contexts::kept(const Each &each, bool reread) const
{
	if (reread)
		return nullptr;
	const auto owner = owner_of(each);
	const tls_settings settings = *each.tls;
	const auto before = now();
	const auto same = std::ranges::find_if(before, [&](const auto &one) {
		return one->owner() == owner && one->settings() == settings;
	});
	return same == before.end() ? nullptr : *same;
}

tls_reading tls_contexts::read(const config &of, bool reread) const
{
	tls_reading made;
	const auto add = [&](auto &to, const auto &each) {
		to.push_back(each.tls && !kept(each, reread) ? tls_files::of(*each.tls)
							     : tls_files{});
	};
	for (const auto &each : of.listeners)
		add(made.listeners, each);
	for (const auto &each : of.groups)
		add(made.groups, each);
	return made;
}

bool tls_contexts::make(const config &of, bool reread, tls_reading read, tls_set &into,
			std::string &why)
{
	const auto add = [&](auto &to, const auto &each, tls_files &files) {
		if (!each.tls) {
			to.push_back(nullptr);
			return true;
		}
		to.push_back(kept(each, reread));
		if (!to.back())
			to.back() = tls_context::open(owner_of(each), *each.tls, &tickets_,
						      std::move(files), why);
		return to.back() != nullptr;
	};
	for (std::size_t i = 0; i < of.listeners.size(); i++)
		if (!add(into.listeners, of.listeners[i], read.listeners[i]))
			return false;
	for (std::size_t i = 0; i < of.groups.size(); i++)
		if (!add(into.groups, of.groups[i], read.groups[i]))
			return false;
	return true;
}

void tls_contexts::use(list which) noexcept
{
	const std::lock_guard lock(lock_);
	in_use_.swap(which); /* the old ones are released after the lock */
}

tls_contexts::list tls_contexts::now() const
{
	const std::lock_guard lock(lock_);
	return in_use_;
}

void tls_contexts::look()
try {
	const auto which = now();
	if (which.empty())
		return;
	const auto since_1970 =
		std::chrono::duration_cast<seconds>(std::chrono::nanoseconds(sn_walltime()));
	renew_tickets(which, since_1970);
	look_at_files(which);
	look_at_dates(which, since_1970);
} catch (const std::exception &) {
	/* There is no memory; the next call may succeed. */
}

/* Each context is asked at each look: a reload may have made some before a renewal that are in use
 * only after it, and there may have been no memory for the new keys of one. */
void tls_contexts::renew_tickets(const list &which, seconds now) noexcept
{
	const auto attempt = [](const auto &call) {
		try {
			call();
		} catch (const std::exception &) {
			/* The next look tries again. */
		}
	};
	attempt([&] { tickets_.renew(now.count()); });
	for (const auto &each : which)
		attempt([&] { each->renew_tickets(tickets_); });
}

/*
 * A call that hangs on the files of one context keeps the turn, so that no context is looked at by
 * two threads at the same time. Until it returns, no other context is looked at either. What it
 * finds then is reported at the next look: the context does not find it again. That look continues
 * with the next context, so that one whose files are always slow does not keep the others from
 * theirs.
 */
void tls_contexts::look_at_files(const list &which)
{
	tell_findings(which);
	for (std::size_t i = 0; i < which.size(); i++) {
		auto turn = looking_.take();
		if (!turn)
			return;
		const auto &each = which[next_++ % which.size()];
		std::list<finding> one; /* made before, so that it cannot be lost */
		one.push_back({each});
		const auto done = call_in_time(
			[found = found_, one = std::move(one), turn = std::move(turn)]() mutable {
				auto &its = one.front();
				its.is = its.of->look(its.why);
				if (its.is != tls_context::seen::same) {
					const std::lock_guard lock(found->lock);
					found->all.splice(found->all.end(), one);
				}
				turn.reset();
				return true;
			});
		tell_findings(which);
		if (!done)
			return;
	}
}

/* What was found about a context that is not in use any more is of no interest. */
void tls_contexts::tell_findings(const list &which) noexcept
{
	for (;;) {
		std::list<finding> next;
		{
			const std::lock_guard lock(found_->lock);
			if (found_->all.empty())
				return;
			next.splice(next.end(), found_->all, found_->all.begin());
		}
		if (std::ranges::find(which, next.front().of) == which.end())
			continue;
		try_to_tell([&] {
			const auto &[of, is, why] = next.front();
			auto fields = fields_of(*of);
			if (is == tls_context::seen::reloaded) {
				emit(event_kind::tls_reloaded,
				     of->owner().key() + ": files have changed and are in use now",
				     std::move(fields));
				return;
			}
			fields.emplace_back("error", why);
			emit(event_kind::tls_not_reloaded,
			     "files have changed and cannot be used, so their previous content "
			     "stays in use: " +
				     why,
			     std::move(fields));
		});
	}
}

void tls_contexts::look_at_dates(const list &which, seconds now)
{
	std::map<std::string, seconds> told;
	for (const auto &each : which)
		for (const auto &one : each->certificates()) {
			const std::string problem = problem_of(one, now);
			if (problem.empty())
				continue;
			/* A new certificate in the same file gets events of its own. */
			const std::string key = each->owner().key() + '\n' + one.file + '\n' +
						one.name + '\n' +
						std::to_string(one.not_after.count());
			const auto last = told_.find(key);
			if (last != told_.end() && now >= last->second &&
			    now - last->second < day) {
				told[key] = last->second;
				continue;
			}
			told[key] = now;
			auto fields = fields_of(*each);
			fields.emplace_back("file", one.file);
			fields.emplace_back("name", one.name);
			fields.emplace_back("not_after", text_of(one.not_after));
			const bool is_over = now >= one.not_after || now < one.not_before;
			const auto kind = one.is_list
						  ? (is_over ? event_kind::revocation_list_invalid
							     : event_kind::revocation_list_expiring)
						  : (is_over ? event_kind::certificate_invalid
							     : event_kind::certificate_expiring);
			emit(kind, each->owner().key() + ": " + problem, std::move(fields));
		}
	told_.swap(told);
}

std::vector<certificate_snapshot> tls_contexts::certificates() const
{
	std::vector<certificate_snapshot> found;
	for (const auto &each : now())
		for (const auto &one : each->certificates()) {
			const auto &owner = each->owner();
			/* Of two certificates with the same name, such as with different keys,
			 * keeps the one that expires first. */
			const auto same = std::ranges::find_if(found, [&](const auto &other) {
				return other.name == one.name && other.owner == owner.name &&
				       other.is_listener == owner.is_listener &&
				       other.is_list == one.is_list;
			});
			if (same == found.end())
				found.push_back({owner.is_listener, owner.name, one.name,
						 one.not_after, one.is_list});
			else
				same->not_after = std::min(same->not_after, one.not_after);
		}
	return found;
}

std::vector<std::string> tls_problems(const config &of, seconds now,
				      std::vector<std::string> &warnings)
{
	std::vector<std::string> found;
	const auto look = [&](const auto &each) {
		if (!each.tls)
			return;
		std::string why;
		const auto made = tls_context::open(owner_of(each), *each.tls, nullptr, {}, why);
		if (!made) {
			found.push_back(why);
			return;
		}
		for (const auto &one : made->certificates())
			if (const std::string problem = problem_of(one, now); !problem.empty())
				warnings.push_back(made->owner().key() + ": " + problem);
	};
	for (const auto &each : of.listeners)
		look(each);
	for (const auto &each : of.groups)
		look(each);
	return found;
}

} // namespace relay
