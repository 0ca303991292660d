static int read_header(struct reader *r, struct header *h)

{
	uint32_t	length;	


	if (reader_u32(r, &length) < 0)
		return -1;
   	
	h->data = malloc(length + 1);	// one byte for the end
	if (!h->data)
		return -1;



	memcpy(h->data, r->at, length);
	h->data[length] = '\0';
	r->at += length;
	return 0;
}
