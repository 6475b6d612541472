import type { DescMessage } from '@bufbuild/protobuf'

const named = new Set(
  ['Any', 'Timestamp', 'Duration', 'FieldMask', 'Struct', 'Value', 'ListValue'].map(
    (name) => `google.protobuf.${name}`,
  ),
)
/** Whether a message is one of the wrappers of a single scalar. */
export const isWrapper = ({ typeName }: DescMessage): boolean =>
  /^google\.protobuf\.(Double|Float|U?Int(32|64)|Bool|String|Bytes)Value$/.test(typeName)

/** Whether JSON has a special form for a message instead of an object with its fields. */
export const hasOwnForm = (message: DescMessage): boolean =>
  named.has(message.typeName) || isWrapper(message)
