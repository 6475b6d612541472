import { readFileSync } from 'node:fs'
import { create, fromBinary } from '@bufbuild/protobuf'
import {
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
  MethodOptionsSchema,
  type FileDescriptorProto,
} from '@bufbuild/protobuf/wkt'
import { describe, expect, it } from 'vitest'
import { readDescriptorSet, registryOf } from './descriptors/descriptors.ts'
import { compileOperations } from './operations/operations.ts'

const bytes = readFileSync(new URL('fixtures/rules.binpb', import.meta.url))
const options = { dialect: 'proto3', decimals: false, strictQuery: false, off: [] } as const
const rules = (): FileDescriptorProto => fromBinary(FileDescriptorSetSchema, bytes).file[0]!

/** The descriptors as a server gives them whose reflection drops options. */
function bare(name: string): FileDescriptorProto {
  const file = rules()
  file.name = `${name}.proto`
  file.package = name
  for (const message of file.messageType)
    for (const field of message.field)
      field.typeName = field.typeName.replace('.rules.', `.${name}.`)
  for (const { method } of file.service)
    for (const each of method) {
      each.options = create(MethodOptionsSchema)
      each.inputType = each.inputType.replace('.rules.', `.${name}.`)
      each.outputType = each.outputType.replace('.rules.', `.${name}.`)
    }
  return file
}

describe('descriptors', () => {
  it('may come in any order, and agree on what they are whatever it was', () => {
    const other = bare('other')
    other.dependency.push('rules.proto')
    const [one, two] = [
      compileOperations([other, rules()], options),
      compileOperations([rules(), other], options),
    ]
    expect(one.fingerprint).toBe(two.fingerprint)
    const changed = rules()
    changed.messageType[0]!.field[0]!.name = 'renamed'
    expect(compileOperations([changed], options).fingerprint).not.toBe(
      compileOperations([rules()], options).fingerprint,
    )
  })

  it('name the services that lost their annotations, and what to do when all have', () => {
    const { notes, all } = compileOperations([rules(), bare('lost')], options)
    expect(notes.join()).toContain('lost.Rules: no method has a google.api.http annotation')
    expect(all.length).toBeGreaterThan(20)
    expect(() => compileOperations([bare('lost')], options)).toThrow(
      expect.objectContaining({
        message: expect.stringContaining('lost.Rules'),
        hint: expect.stringContaining('GATEWAY_DESCRIPTORS'),
      }),
    )
  })

  it('may import files of options that nobody has, and no other', () => {
    const file = rules()
    file.dependency.push('google/api/field_behavior.proto', 'gogoproto/extra.proto')
    expect(registryOf([file]).getMessage('rules.Ask')).toBeDefined()
    file.dependency.push('my/types.proto')
    expect(() => registryOf([file])).toThrow('imports my/types.proto, which is missing')
  })

  it.each([
    ['noise', Buffer.from('noise, not descriptors')],
    ['a cut file', bytes.subarray(0, 500)],
  ])('that are %s are refused with what to do', (_, given) => {
    expect(() => readDescriptorSet(given)).toThrow(
      expect.objectContaining({ hint: expect.stringContaining('protoc') }),
    )
  })

  it('that contradict themselves are refused', () => {
    const file = create(FileDescriptorProtoSchema, {
      ...rules(),
      dependency: ['google/api/annotations.proto'],
    })
    file.messageType[1]!.field[0]!.typeName = '.rules.Nowhere'
    expect(() => registryOf([file])).toThrow('contradict themselves')
    expect(() => compileOperations([], options)).toThrow('have no services')
  })
})
