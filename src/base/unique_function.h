// A callable that may own move-only things (std::move_only_function arrives with C++23).
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace queen {

template <class Signature>
class UniqueFunction;

template <class R, class... Args>
class UniqueFunction<R(Args...)> {
 public:
  UniqueFunction() = default;
  UniqueFunction(std::nullptr_t) {}  // NOLINT: like std::function
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, UniqueFunction>>>
  UniqueFunction(F&& f) : held_(std::make_unique<Held<std::decay_t<F>>>(std::forward<F>(f))) {}  // NOLINT

  R operator()(Args... args) { return held_->call(std::forward<Args>(args)...); }
  explicit operator bool() const { return held_ != nullptr; }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual R call(Args... args) = 0;
  };
  template <class F>
  struct Held final : Base {
    explicit Held(F f) : function(std::move(f)) {}
    R call(Args... args) override { return function(std::forward<Args>(args)...); }
    F function;
  };
  std::unique_ptr<Base> held_;
};

}  // namespace queen
