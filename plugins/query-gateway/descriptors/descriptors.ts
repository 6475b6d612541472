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

/** Files that are imported for options which nobody reads here: they may be missing. */
const onlyOptions = /^(google\/api|gogoproto|cosmos_proto|amino|protoc-gen-openapiv2)\//

/**
 * One registry of these files and of the bundled ones, in an order in which each file comes after
 * what it imports. A file that was given wins over a bundled one of its name, except for protobuf's own.
 */
export function registryOf(given: readonly FileDescriptorProto[]): FileRegistry {
  const files = new Map(bundledFiles)
  // A server may serve `gogo.proto` under another name; two files of one package would then collide.
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

/** What is known without any descriptors of an upstream. */
export const bundledRegistry = registryOf([])
