// Every operator that the device has no kernel for: checked, counted, and run by the CPU's kernel on aliases.
#include "ledger.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

namespace emulated {

using at::Tensor;

Tensor host_view(const Tensor& own) {
  if (!own.defined() || !own.is_privateuseone()) return own;
  c10::DataPtr same(own.storage().mutable_data(), c10::Device(c10::DeviceType::CPU));
  c10::Storage storage(c10::Storage::use_byte_size_t(), own.storage().nbytes(), std::move(same), c10::GetCPUAllocator(), true);
  Tensor seen = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), own.dtype());
  seen.unsafeGetTensorImpl()->set_sizes_and_strides(own.sizes(), own.strides(), own.storage_offset());
  seen._set_conj(own.is_conj());
  seen._set_neg(own.is_neg());
  return seen;
}

Tensor to_device(const Tensor& result, c10::Device where) {
  if (!result.defined()) return result;
  Tensor own = at::empty_strided(result.sizes(), result.strides(), result.options().device(where));
  if (result.numel() > 0) host_view(own).copy_(result);
  return own;
}

static int64_t stored_bytes(const Tensor& t) {  // an expanded axis is there once
  int64_t count = t.element_size();
  for (int64_t axis = 0; axis < t.dim(); axis++) count *= t.stride(axis) == 0 && t.size(axis) > 0 ? 1 : t.size(axis);
  return count;
}

void count_traffic(const Tensor& t) { if (ledger.open && t.defined() && t.is_privateuseone()) ledger.traffic += stored_bytes(t); }

namespace {

using c10::IValue;
using Stack = torch::jit::Stack;

template <class Visit>
void visit_tensors(const IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList()) { for (const IValue& item : value.toListRef()) visit_tensors(item, visit); }
}

template <class Change>
IValue map_tensors(const IValue& value, Change&& change) {
  if (value.isTensor()) return change(value.toTensor());
  if (!value.isList()) return value;
  auto list = value.toList().copy();
  for (size_t i = 0; i < list.size(); i++)
    if (IValue item = list.get(i); item.isTensor()) list.set(i, change(item.toTensor()));
  return list;
}

bool is_one_of(const std::string& name, std::initializer_list<const char*> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const char* prefix) { return name.rfind(prefix, 0) == 0; });
}

// CUDA's rule: all tensors on one device, but for numbers of the host in pointwise operators and indices in indexing.
c10::Device check_devices(const c10::OperatorHandle& op, const std::string& name, c10::ArrayRef<IValue> arguments) {
  std::optional<c10::Device> where;
  for (const IValue& value : arguments) {
    visit_tensors(value, [&](const Tensor& t) { if (!where && t.is_privateuseone()) where = t.device(); });
    if (!where && value.isDevice()) where = value.toDevice();
  }
  c10::Device device = where && where->has_index() ? *where : c10::Device(KIND, current);
  bool indexing = is_one_of(name, {"index.Tensor", "index_put", "_index_put_impl_", "_unsafe_index"});
  bool numbers = indexing || op.hasTag(at::Tag::pointwise) || is_one_of(name, {"where", "masked_fill", "fill_", "_foreach", "_fused", "_amp"});
  bool moved = false;
  for (const IValue& value : arguments)
    visit_tensors(value, [&](const Tensor& t) {
      if (t.device() == device) return;
      bool number = t.is_cpu() && t.dim() == 0 && (numbers || t.unsafeGetTensorImpl()->is_wrapped_number());
      bool index = t.is_cpu() && indexing && value.isList();
      TORCH_CHECK(number || index, "Expected all tensors to be on the same device, but found at least two devices, ", device,
                  " and ", t.device(), "! (when calling ", name, ")");
      moved |= index && !number;
    });
  if (moved && nested == 0) ledger.wait("host to device", name);
  return device;
}

bool makes_host_wait(const c10::OperatorHandle& op, const std::string& name, c10::ArrayRef<IValue> arguments) {
  if (is_one_of(name, {"index.Tensor", "_unsafe_index"})) return false;  // a mask was turned into numbers before
  if (is_one_of(name, {"index_put", "_index_put_impl_"})) {
    bool masks = false, fills = arguments[2].toTensor().numel() == 1 && !arguments[3].toBool();
    visit_tensors(arguments[1], [&](const Tensor& t) { masks |= t.scalar_type() == at::kBool; });
    return masks && !fills;  // a number under a mask is a masked_fill
  }
  if (is_one_of(name, {"repeat_interleave.Tensor"})) return arguments.back().isNone();
  return op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output) ||
         is_one_of(name, {"nonzero.out", "multinomial", "isin", "histc", "_unique", "_linalg_", "linalg_eig", "linalg_lstsq"});
}

// Where TF32 is allowed, tensor cores keep 10 bits of the factors of a product: of two, of three operands the last two.
Tensor as_factor(const std::string& name, size_t place, const Tensor& given) {
  bool two = is_one_of(name, {"mm.", "bmm.", "mm", "bmm"}), three = is_one_of(name, {"addmm", "baddbmm"});
  bool factor = (two && place < 2) || (three && (place == 1 || place == 2));
  if (!factor || given.scalar_type() != at::kFloat || !at::globalContext().allowTF32CuBLAS()) return given;
  return given.clone().view(at::kInt).add_(0x1000).bitwise_and_(~0x1FFF).view(at::kFloat);
}

struct Call {  // one call of an operator: its arguments as they came, and which of them the kernel may write
  std::vector<IValue> given;
  std::vector<std::pair<Tensor, Tensor>> written;  // (device's, host's view)
};

Call swap_arguments(const c10::FunctionSchema& schema, const std::string& name, c10::Device where, Stack* stack) {
  const size_t begin = stack->size() - schema.arguments().size();
  Call call{{stack->begin() + begin, stack->end()}, {}};
  for (size_t i = 0; i < call.given.size(); i++) {
    const auto& argument = schema.arguments()[i];
    bool writes = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    auto swap = [&](const Tensor& own) {
      Tensor seen = host_view(own);
      if (writes && own.defined()) call.written.emplace_back(own, seen);
      return own.defined() && !writes ? as_factor(name, i, seen) : seen;
    };
    IValue& value = (*stack)[begin + i];
    value = value.isDevice() ? c10::Device(c10::DeviceType::CPU) : map_tensors(value, swap);
    auto type = argument.type();
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    if (type->kind() == c10::TypeKind::GeneratorType)
      value = host_twin(call.given[i].isNone() ? default_generator(where.index()) : call.given[i].toGenerator());
  }
  return call;
}

void swap_results(const c10::FunctionSchema& schema, const std::string& name, c10::Device where, const Call& call, Stack* stack) {
  for (const auto& [own, seen] : call.written) {  // an out= of another size was given other memory
    if (seen.sizes() == own.sizes() && seen.const_data_ptr() == own.const_data_ptr()) continue;
    own.resize_({int64_t(at::detail::computeStorageNbytes(seen.sizes(), seen.strides(), 1))});  // strides may leave gaps
    own.unsafeGetTensorImpl()->set_sizes_and_strides(seen.sizes(), seen.strides());
    if (seen.numel() > 0) host_view(own).copy_(seen);
  }
  const size_t begin = stack->size() - schema.returns().size();
  for (size_t i = 0; i < schema.returns().size(); i++) {
    IValue& value = (*stack)[begin + i];
    const auto* alias = schema.returns()[i].alias_info();
    if (alias != nullptr && alias->isWrite()) {
      for (size_t j = 0; j < call.given.size(); j++)
        if (const auto* source = schema.arguments()[j].alias_info(); source != nullptr && *source == *alias) value = call.given[j];
      continue;
    }
    value = map_tensors(value, [&](const Tensor& result) {
      TORCH_CHECK(alias == nullptr, "the emulated device has no kernel for the view ", name);
      Tensor own = to_device(result, where);
      if (nested == 1) count_traffic(own);
      return own;
    });
  }
}

}  // namespace

void run_on_host(const c10::OperatorHandle& op, Stack* stack) {
  const auto& schema = op.schema();
  const std::string name = c10::toString(schema.operator_name()).substr(schema.name().find("::") + 2);
  auto arguments = c10::ArrayRef<IValue>(*stack).slice(stack->size() - schema.arguments().size());
  const c10::Device where = check_devices(op, name, arguments);
  if (nested == 0) {
    ledger.launch(name);
    for (const IValue& value : arguments) visit_tensors(value, count_traffic);
    if (makes_host_wait(op, name, arguments)) ledger.wait("shape of a result", name);
  }
  Nested mine;
  c10::DeviceGuard guard(where);
  Call call = swap_arguments(schema, name, where, stack);
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  swap_results(schema, name, where, call, stack);
}

}  // namespace emulated

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&emulated::run_on_host>()); }
