import { create } from '@bufbuild/protobuf'
import {
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
  FieldDescriptorProtoSchema,
  FileDescriptorProtoSchema,
  file_google_protobuf_any,
  file_google_protobuf_api,
  file_google_protobuf_descriptor,
  file_google_protobuf_duration,
  file_google_protobuf_empty,
  file_google_protobuf_field_mask,
  file_google_protobuf_source_context,
  file_google_protobuf_struct,
  file_google_protobuf_timestamp,
  file_google_protobuf_type,
  file_google_protobuf_wrappers,
  type FieldDescriptorProto,
  type FileDescriptorProto,
} from '@bufbuild/protobuf/wkt'

type FieldOptions = { repeated?: boolean; oneof?: boolean; extendee?: string }

/** Makes the descriptor of a field; `type` is a scalar of protobuf or the full name of a message. */
function field(
  name: string,
  number: number,
  type: Type | string,
  { repeated, oneof, extendee }: FieldOptions = {},
): FieldDescriptorProto {
  return create(FieldDescriptorProtoSchema, {
    name,
    number,
    label: repeated ? Label.REPEATED : Label.OPTIONAL,
    type: typeof type === 'string' ? Type.MESSAGE : type,
    typeName: typeof type === 'string' ? type : '',
    ...(oneof ? { oneofIndex: 0 } : {}),
    ...(extendee ? { extendee } : {}),
  })
}

const methodOptions = { extendee: '.google.protobuf.MethodOptions' }
const fieldOptions = { extendee: '.google.protobuf.FieldOptions' }
const messageOptions = { extendee: '.google.protobuf.MessageOptions' }
const imports = ['google/protobuf/descriptor.proto']

const http = create(FileDescriptorProtoSchema, {
  name: 'google/api/http.proto',
  package: 'google.api',
  syntax: 'proto3',
  messageType: [
    {
      name: 'Http',
      field: [
        field('rules', 1, '.google.api.HttpRule', { repeated: true }),
        field('fully_decode_reserved_expansion', 2, Type.BOOL),
      ],
    },
    {
      name: 'HttpRule',
      oneofDecl: [{ name: 'pattern' }],
      field: [
        field('selector', 1, Type.STRING),
        ...['get', 'put', 'post', 'delete', 'patch'].map((verb, index) =>
          field(verb, index + 2, Type.STRING, { oneof: true }),
        ),
        field('body', 7, Type.STRING),
        field('custom', 8, '.google.api.CustomHttpPattern', { oneof: true }),
        field('additional_bindings', 11, '.google.api.HttpRule', { repeated: true }),
        field('response_body', 12, Type.STRING),
      ],
    },
    {
      name: 'CustomHttpPattern',
      field: [field('kind', 1, Type.STRING), field('path', 2, Type.STRING)],
    },
  ],
})

const annotations = create(FileDescriptorProtoSchema, {
  name: 'google/api/annotations.proto',
  package: 'google.api',
  syntax: 'proto3',
  dependency: ['google/api/http.proto', ...imports],
  extension: [field('http', 72295728, '.google.api.HttpRule', methodOptions)],
})

const status = create(FileDescriptorProtoSchema, {
  name: 'google/rpc/status.proto',
  package: 'google.rpc',
  syntax: 'proto3',
  dependency: ['google/protobuf/any.proto'],
  messageType: [
    {
      name: 'Status',
      field: [
        field('code', 1, Type.INT32),
        field('message', 2, Type.STRING),
        field('details', 3, '.google.protobuf.Any', { repeated: true }),
      ],
    },
  ],
})

// The option files of ledgers, reduced to the options that this gateway reads.
const optionFiles = (
  [
    ['gogoproto/gogo.proto', 'proto2', field('customtype', 65003, Type.STRING, fieldOptions)],
    ['cosmos_proto/cosmos.proto', 'proto3', field('scalar', 93002, Type.STRING, fieldOptions)],
    ['amino/amino.proto', 'proto3', field('name', 11110001, Type.STRING, messageOptions)],
  ] as const
).map(([name, syntax, option]) =>
  create(FileDescriptorProtoSchema, {
    name,
    package: name.slice(0, name.indexOf('/')),
    syntax,
    dependency: imports,
    extension: [option],
  }),
)

/** The files that many descriptor sets import but few servers serve, by their names. */
export const bundledFiles: ReadonlyMap<string, FileDescriptorProto> = new Map(
  [
    ...[
      file_google_protobuf_any,
      file_google_protobuf_api,
      file_google_protobuf_descriptor,
      file_google_protobuf_duration,
      file_google_protobuf_empty,
      file_google_protobuf_field_mask,
      file_google_protobuf_source_context,
      file_google_protobuf_struct,
      file_google_protobuf_timestamp,
      file_google_protobuf_type,
      file_google_protobuf_wrappers,
    ].map(({ proto }) => proto),
    http,
    annotations,
    status,
    ...optionFiles,
  ].map((file) => [file.name, file]),
)
