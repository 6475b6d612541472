import { createFileRegistry, create, fromBinary, type FileRegistry } from '@bufbuild/protobuf'
import {
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
  type FileDescriptorProto,
} from '@bufbuild/protobuf/wkt'
import { RuntimeError } from '#core'
import { bundledFiles } from './bundled-files.ts'

/** Reads a FileDescriptorSet, as `protoc --include_imports --descriptor_set_out` writes it. */
export function readDescriptorSet(bytes: Uint8Array): FileDescriptorProto[] {
  try {
    return fromBinary(FileDescriptorSetSchema, bytes).file
  } catch (cause) {
    throw new RuntimeError('UPSTREAM_FAILED', 'The descriptors are not a FileDescriptorSet.', {
      hint: 'Write the file with: protoc --include_imports --descriptor_set_out=descriptors.binpb …',
      cause,
    })
  }
}

/** Files that others import only for options. Such a file may be missing, because this gateway does not need its options. */
const onlyOptions = /^(google\/api|gogoproto|cosmos_proto|amino|protoc-gen-openapiv2)\//

/**
 * Makes one registry of the given files and the bundled ones, sorted so that each file comes after its imports. A given
 * file replaces a bundled file of the same name, except for protobuf's own files.
 */
export function registryOf(given: readonly FileDescriptorProto[]): FileRegistry {
  const files = new Map(bundledFiles)
  // A server may serve `gogo.proto` under another name, and then the bundled file of the same package must give way.
  for (const file of given)
    if (!file.name.startsWith('google/protobuf/')) files.set(file.name, file)
  for (const [name, file] of bundledFiles)
    if (
      !name.startsWith('google/') &&
      given.some((other) => other.name !== name && other.package === file.package)
    )
      files.delete(name)
  const sorted: FileDescriptorProto[] = []
  const state = new Map<string, 'open' | 'done'>()
  const visit = (name: string, importer: string | undefined) => {
    if (state.has(name)) return
    const file =
      files.get(name) ??
      (onlyOptions.test(name) ? create(FileDescriptorProtoSchema, { name }) : undefined)
    if (file === undefined)
      throw new RuntimeError('UPSTREAM_FAILED', `${importer} imports ${name}, which is missing.`, {
        hint: 'Write the descriptors with --include_imports.',
      })
    state.set(name, 'open')
    for (const dependency of file.dependency) visit(dependency, name)
    state.set(name, 'done')
    sorted.push(file)
  }
  for (const name of files.keys()) visit(name, undefined)
  try {
    return createFileRegistry(create(FileDescriptorSetSchema, { file: sorted }))
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new RuntimeError('UPSTREAM_FAILED', `The descriptors contradict themselves: ${why}.`, {
      cause,
    })
  }
}

/** The registry of the bundled files alone, for use before an upstream's descriptors are known. */
export const bundledRegistry = registryOf([])
