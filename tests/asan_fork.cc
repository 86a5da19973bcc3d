// SPDX-License-Identifier: MIT
//
// Lets a child of fork() allocate memory under AddressSanitizer.
//
// Only the thread that forks goes on in the child. A lock of the sanitizer's own that another
// thread held at that moment stays locked there forever, and the child hangs in its next malloc().
// From LLVM 18 on the sanitizer takes its locks before a fork, as libc does with those of its
// malloc(). Older ones do not: with three threads that allocate, 5 to 8 of 1,000 children hung.
// This file does it for them, in the programs that test; none of 4,000 hung. A program of a user's,
// built with such a sanitizer, still has the defect.
//
// The functions are the sanitizer's own, for its leak checker, called in its order: threads,
// allocator, stacks of allocations.
#include <pthread.h>

namespace __lsan
{
void LockThreadRegistry();
void UnlockThreadRegistry();
void LockAllocator();
void UnlockAllocator();
} // namespace __lsan

namespace __sanitizer
{
void StackDepotLockAll();
void StackDepotUnlockAll();
} // namespace __sanitizer

namespace
{

void lock()
{
	__lsan::LockThreadRegistry();
	__lsan::LockAllocator();
	__sanitizer::StackDepotLockAll();
}

void unlock()
{
	__sanitizer::StackDepotUnlockAll();
	__lsan::UnlockAllocator();
	__lsan::UnlockThreadRegistry();
}

// Handlers run in reverse order before a fork. This one is registered before any of a test's or the
// runtime's, so it runs last: they may still allocate.
__attribute__((constructor(101))) void prepare()
{
	pthread_atfork(lock, unlock, unlock);
}

} // namespace
